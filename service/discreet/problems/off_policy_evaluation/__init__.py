"""The value of a policy, from what people did under another."""
