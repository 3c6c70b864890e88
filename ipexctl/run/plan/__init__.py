"""Plan a run: who runs which rank where, with which variables. Pure."""
