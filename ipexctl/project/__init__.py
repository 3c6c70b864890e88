"""The user's folder: which files are sent, and sending them."""
