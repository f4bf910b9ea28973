"""Off-policy evaluation: value functions from moments, gradients or returns of trajectories."""
