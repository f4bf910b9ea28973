"""People whom an OpenID provider vouches for: logins of the pages and access tokens of the API.

    configuration → provider (discovery, keys) → tokens (what is believed) → grants (tenant and
    role) → people
                                                   └ login: the authorization code flow with PKCE,
                                                   and logout

Nothing here is called, and no outbound call made, unless DISCREET_OIDC_ISSUER is set.
"""
