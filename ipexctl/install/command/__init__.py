"""The options of `install`, `stacks` and `bundle`, and what they print."""
