"""A run on a host: what it would use, its processes, their logs and what they left."""
