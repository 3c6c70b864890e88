"""The run's copy of the user's folder on this host."""
