"""Explain what the steps of a run wait for, and what would shorten them."""
