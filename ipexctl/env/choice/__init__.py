"""The environment that a command uses, and differences of environments. Pure."""
