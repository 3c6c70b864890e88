"""`ipexctl tune`: find the fastest way to run a script on these hosts."""
