"""What a host is and has: read by doctor and before each run; nothing is changed."""
