"""The state of a run, and how it ended. Pure."""
