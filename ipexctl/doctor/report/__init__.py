"""Findings, fixes and recommendations as pure values."""
