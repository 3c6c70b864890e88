"""`ipexctl explain`: what a check, a known failure or a log means."""
