"""Command lines of other launchers, and Accelerate configs. Pure."""
