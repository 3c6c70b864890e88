"""A rank: the program that starts it, its sockets."""
