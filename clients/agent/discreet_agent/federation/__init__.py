"""What agents, owners and the server share: keys, links, rosters, and the statements that they
sign. Nothing here uses gRPC."""
