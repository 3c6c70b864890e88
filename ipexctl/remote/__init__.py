"""Code that runs on the hosts: sent there by machines/agent_sources.py, never imported here."""
