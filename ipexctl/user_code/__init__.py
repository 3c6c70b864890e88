"""Read code that users wrote: Python, shell words. Pure."""
