"""Which network the ranks use, where the hosts have several in common."""
