"""What outsiders can check with no server: entries, signed heads, exports, certificates."""
