"""Road networks: public objects of their own, the files they come in, and their map."""
