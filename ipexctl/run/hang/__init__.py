"""Who hangs in a run, and why, from what its hosts saw of the ranks (pure)."""
