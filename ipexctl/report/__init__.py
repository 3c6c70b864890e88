"""`ipexctl report`: a run as one page, and the reasons why one run is faster than another."""
