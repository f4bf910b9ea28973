"""Everything on one machine: the state folder, the embedded PostgreSQL, the supervisor and its
parts, backups, and `discreet solve`, which runs one job without a server."""
