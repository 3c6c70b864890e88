"""Checkpoints of a run: copied to a second host, and laid out for the next attempt."""
