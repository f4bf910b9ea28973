"""Where the keys of an installation lie: the secrets file itself, a token (PKCS#11) or a key
service (AWS KMS).

The secrets file has a text for every key. Its provider decides what a text means: the key
itself, the key wrapped by another one kept elsewhere, or the name of a key in a token. `Keys`
finds the provider of a text."""
