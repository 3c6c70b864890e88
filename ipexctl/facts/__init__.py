"""What hosts reported about themselves, as values. Pure."""
