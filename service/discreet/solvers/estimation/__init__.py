"""Estimation of counts to which noise was added."""
