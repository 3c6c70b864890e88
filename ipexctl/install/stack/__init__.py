"""The version table, requirements and the lock file as pure values."""
