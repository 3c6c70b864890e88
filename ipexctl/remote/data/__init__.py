"""Datasets on this host."""
