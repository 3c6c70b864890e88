"""`ipexctl install` and `bundle`: one stack on every host."""
