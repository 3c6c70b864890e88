"""Who decides in a run: in the supervisor of its first host."""
