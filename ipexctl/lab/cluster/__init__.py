"""Namespaces, sshd and faults of the practice hosts."""
