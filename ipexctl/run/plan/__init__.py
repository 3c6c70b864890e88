"""Who runs which rank where, with which variables; the MPIs. Pure."""
