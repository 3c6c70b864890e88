"""The run's own copy of the user's folder on this host."""
