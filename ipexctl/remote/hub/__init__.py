"""The hub of a run, in the supervisor of its first host: it decides what the run does next."""
