"""The options of `doctor`, and what it prints."""
