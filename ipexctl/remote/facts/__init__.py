"""Read what a host is and has, for doctor and before each run; nothing is changed."""
