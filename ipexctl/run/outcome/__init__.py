"""How a run stands and how it ended. Pure."""
