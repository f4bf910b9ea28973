"""Routing: the users of a network, shown where to go without telling where any of them went."""
