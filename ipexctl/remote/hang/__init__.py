"""Look at ranks that make no progress."""
