"""`ipexctl hosts`, `init`, `config` and `trust`: the hosts, and their keys."""
