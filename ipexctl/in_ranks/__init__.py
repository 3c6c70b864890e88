"""Code that runs inside the Python of each rank. Sent as text; Python 3.6."""
