"""Bytes and frames between this machine and an agent."""
