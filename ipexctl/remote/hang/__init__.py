"""A look into ranks that make no progress. Runs on the hosts."""
