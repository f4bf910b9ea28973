"""Contents that are read where they lie: files, web servers and buckets that the operator allows,
and nothing else.

`rules` says which addresses are allowed, and to whom; `fetching` brings what one of them holds,
sealed, to the reader of uploads, as if it had been uploaded. `local`, `web` and `buckets` know one
kind of place each.
"""
