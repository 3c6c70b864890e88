"""Readers of code and settings, and the rules. Pure."""
