"""Where the keys of an installation lie: the secrets file itself, a token (PKCS#11) or a key
service (AWS KMS).

The secrets file has a text for every key. What a text means is its provider's to say: the key
itself, the key wrapped by another that lies elsewhere, or the name of a key in a token. `Keys`
finds the provider of a text."""
