"""What hosts reported, as values: NAME_facts.py for each subject. Pure."""
