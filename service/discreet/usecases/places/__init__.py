"""Contents that the service fetches by itself: only from folders, web servers, buckets and
databases that the operator allows.

`addresses` reads them; `rules` says which are allowed, and to whom; `fetching` passes what is at an
address, encrypted, to the reader of uploads, as if it had been uploaded. `local`, `web`, `buckets`
and `databases` (with `wire` and `rows`) each handle one kind of place.
"""
