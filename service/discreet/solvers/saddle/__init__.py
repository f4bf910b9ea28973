"""Saddle points: primal-dual methods of many agents, what proves them convex, and their noise."""
