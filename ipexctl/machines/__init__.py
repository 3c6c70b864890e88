"""I/O with hosts: the fleet of a command, the agent on each host."""
