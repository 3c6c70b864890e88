"""The options of `play`, and what it prints."""
