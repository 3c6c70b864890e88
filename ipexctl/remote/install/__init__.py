"""Environments on a host: the files they are made of, building, proving and removing them."""
