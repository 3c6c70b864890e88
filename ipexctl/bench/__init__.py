"""`ipexctl bench`: how fast the hosts of a cluster exchange data, and which of them is slow."""
