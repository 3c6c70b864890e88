"""Package indexes, the resolver, wheels."""
