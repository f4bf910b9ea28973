"""Off-policy evaluation: the value of a policy, from what people did under another."""
