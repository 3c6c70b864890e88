"""Which environment a command uses, and how environments differ. Pure."""
