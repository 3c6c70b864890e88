"""`ipexctl play`: the steps of a play on every host."""
