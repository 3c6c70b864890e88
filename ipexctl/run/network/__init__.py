"""Choose the network that the ranks use, if the hosts have several in common."""
