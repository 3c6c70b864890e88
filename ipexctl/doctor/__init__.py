"""`ipexctl doctor`: find what would break or slow down a run, and the command that fixes it."""
