"""The audit of released noise: neighbours, the tests that tell them apart, and mechanisms planted
to be caught."""
