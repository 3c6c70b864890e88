"""What `play` shows."""
