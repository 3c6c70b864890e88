"""Connections between hosts: of a run, and ports that are open while a command lasts."""
