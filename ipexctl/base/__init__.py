"""Positions in texts, sizes, quoting, untrusted values: for all rooms. Pure."""
