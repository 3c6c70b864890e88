"""Code that the controller and the hosts share. Standard library, Python 3.6."""
