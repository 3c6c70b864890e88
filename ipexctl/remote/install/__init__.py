"""Environments on a host: their files, and building, proving and removing them."""
