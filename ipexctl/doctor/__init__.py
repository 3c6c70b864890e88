"""`ipexctl doctor`: find what breaks or slows down runs, and how to fix it."""
