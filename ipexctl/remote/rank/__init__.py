"""A rank: the program that starts it, and its sockets."""
