"""Hosts over SSH through Paramiko, the library under Fabric; only this package imports them.

One TCP connection and one session per `open`. The host's key is checked by our own reading of
known_hosts before anything about the user is sent. The reasons: docs/decisions/0003-ssh.md.
"""
