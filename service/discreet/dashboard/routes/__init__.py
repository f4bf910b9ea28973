"""One module a menu entry."""
