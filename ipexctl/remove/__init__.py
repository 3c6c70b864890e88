"""`ipexctl remove` and `prune`."""
