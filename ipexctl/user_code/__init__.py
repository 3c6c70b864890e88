"""Read code that users wrote: Python, shell words; and the names that are discontinued. Pure."""
