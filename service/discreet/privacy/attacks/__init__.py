"""The audit of released noise: neighbours, the tests that tell them apart, and faulty mechanisms
planted to be caught."""
