"""Demand response of an ensemble of loads."""
