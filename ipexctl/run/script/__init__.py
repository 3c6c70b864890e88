"""Compare what a script expects with the hosts. Pure."""
