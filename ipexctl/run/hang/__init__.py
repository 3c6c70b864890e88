"""Diagnose why a run makes no progress: which rank hangs, where, and what others wait for. Pure."""
