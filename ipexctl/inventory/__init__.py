"""Readers of all formats of host lists. Pure."""
