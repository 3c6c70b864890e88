"""What runs on the hosts: shipped there as source by hosts/shipping.py, and never imported here."""
