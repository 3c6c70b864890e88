"""Shares of the global batch for hosts of unequal speed."""
