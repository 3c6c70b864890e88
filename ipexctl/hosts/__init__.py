"""`ipexctl hosts`, `init`, `config` and `trust`: which hosts there are, and their keys."""
