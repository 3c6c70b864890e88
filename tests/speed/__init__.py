"""Choices that make runs faster, each by measurement."""
