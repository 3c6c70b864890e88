"""The script of a run and the modules it imports, read from this machine."""
