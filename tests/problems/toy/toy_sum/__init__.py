"""A toy kind: the sum of everybody's number."""
