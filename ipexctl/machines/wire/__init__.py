"""Bytes and frames between the controller and an agent."""
