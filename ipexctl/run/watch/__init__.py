"""A run while it lasts: following it, its folder here, its files fetched."""
