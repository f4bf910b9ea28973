"""Traffic assignment: shortest paths, equilibration of path flows and projections onto flows."""
