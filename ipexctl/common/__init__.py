"""What the controller and the hosts must do alike. Standard library only, Python 3.6 syntax."""
