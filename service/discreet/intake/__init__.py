"""Input from outside, read strictly and in linear time: JSON, and sentences for what is wrong
with it."""
