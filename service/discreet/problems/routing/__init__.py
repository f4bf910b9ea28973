"""Routing: directing the users of a network without revealing where any of them went."""
