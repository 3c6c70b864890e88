"""A run that goes on after a failure: keepers on its hosts start it again, on spares if needed."""
