"""Shared by all rooms: positions in texts, sizes, quoting, untrusted values. Pure."""
