"""Contents that the service fetches by itself: only from folders, web servers and buckets that the
operator allows.

`rules` says which addresses are allowed, and to whom; `fetching` passes what is at an address,
encrypted, to the reader of uploads, as if it had been uploaded. `local`, `web` and `buckets` each
handle one kind of place.
"""
