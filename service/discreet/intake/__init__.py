"""What comes from outside, read strictly and in proportion: JSON, and the sentences for what is
wrong in it."""
