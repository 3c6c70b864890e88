"""Removing what ipexctl put on this host, and keeping the rest small."""
