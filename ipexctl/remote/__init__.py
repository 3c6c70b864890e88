"""What runs on the hosts: shipped as source by hosts/agent_sources.py, and never imported here."""
