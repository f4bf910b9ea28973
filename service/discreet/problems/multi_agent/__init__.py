"""Agents with common constraints, through a trusted cloud."""
