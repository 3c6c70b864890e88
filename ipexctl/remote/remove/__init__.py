"""Remove what ipexctl put on this host, and keep the rest small."""
