"""The version table, requirements and the lock file. Pure."""
