"""A run on a host: its environment, its processes, their logs and their records."""
