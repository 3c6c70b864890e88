"""`ipexctl shell`: a person at one host."""
