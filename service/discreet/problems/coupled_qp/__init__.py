"""Coupled quadratic programs over sums that only the agents can open."""
