"""Connections between the hosts of a run."""
