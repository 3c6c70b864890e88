"""Checkpoints of a run, copied to a second host while it runs."""
