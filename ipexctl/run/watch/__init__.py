"""Watch a run while it lasts: follow it, keep its folder here, fetch its files."""
