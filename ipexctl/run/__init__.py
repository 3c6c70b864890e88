"""`ipexctl run` and `attach`: from a script to ranks on every host."""
