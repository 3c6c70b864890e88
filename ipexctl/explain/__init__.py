"""`ipexctl explain`: the meaning of a check, a known failure or a log."""
