"""`ipexctl bench`: measure how fast hosts exchange data, and find the slow ones."""
