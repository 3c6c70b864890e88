"""`ipexctl env`: the environments on the hosts."""
