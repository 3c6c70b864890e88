"""`ipexctl data`: datasets that stay on the hosts."""
