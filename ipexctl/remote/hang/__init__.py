"""Look at ranks that make no progress. Runs on the hosts."""
