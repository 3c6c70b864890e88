"""The options of bench, and what it prints."""
