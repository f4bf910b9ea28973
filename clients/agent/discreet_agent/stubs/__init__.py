"""Generated from `protos/` by `make protos`; not to be edited."""
