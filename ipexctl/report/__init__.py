"""report: one HTML file about a run, which works offline."""
