"""The version table, requirements, the lock file, the MPIs and environments as pure values."""
