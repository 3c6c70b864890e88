"""Readers of code and settings. Pure."""
