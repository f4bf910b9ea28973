"""What agents, owners and the server share: keys, links, rosters, and what signatures cover. No
gRPC in here."""
