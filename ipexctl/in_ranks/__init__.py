"""Code that runs inside the Python of each rank. Sent as text, never imported here; Python 3.6."""
