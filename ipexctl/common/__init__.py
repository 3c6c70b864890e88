"""Code that the controller and the hosts share. Standard library only, Python 3.6 syntax."""
