"""discreet: private optimization with a price known in advance and a ledger that cannot be
overspent."""
