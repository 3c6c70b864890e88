"""Package indexes, the resolver, wheels, CPython builds."""
