"""Saddle points: primal-dual methods of many agents, proofs of convexity, and noise."""
