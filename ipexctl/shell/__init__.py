"""`ipexctl shell`: a shell or a command on one host."""
