"""run --restarts: what the keepers on the hosts are told, and the attempts that they start."""
