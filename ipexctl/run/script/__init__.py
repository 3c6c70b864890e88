"""What a script expects, compared with the hosts. Pure."""
