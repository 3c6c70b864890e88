"""`ipexctl doctor`: what would break or slow down a run, and the command that fixes it."""
