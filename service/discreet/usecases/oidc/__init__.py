"""People whom an OpenID provider vouches for: logins of the pages and access tokens of the API.

    configuration → provider (discovery, keys) → tokens (validity) → grants (tenant, role) → people
                                                   └ login: the authorization code flow with PKCE,
                                                     and logout

None of this runs, and no outbound call is made, unless DISCREET_OIDC_ISSUER is set.
"""
