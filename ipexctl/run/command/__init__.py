"""The options of `run` and of the commands about runs, and their output."""
