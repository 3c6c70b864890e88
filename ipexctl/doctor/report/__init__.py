"""Findings, fixes and recommendations, as values. Pure."""
