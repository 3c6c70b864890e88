"""`ipexctl ps`, `logs`, `fetch`, `metrics`, `stop`, `wait` and `rm`."""
