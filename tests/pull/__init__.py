"""data pull: a server that speaks the hub's API, and what comes from it to hosts."""
