"""Messages between the supervisor and the process that copies: one a packet, so that none is cut
and none is read in part by a process that is killed."""

import json

LIMIT = 1 << 18  # bytes


def send(link, message, flags=0):
    link.send(json.dumps(message).encode("ascii"), flags)


def receive(link):
    """None at the end."""
    data = link.recv(LIMIT)
    return json.loads(data.decode("ascii")) if data else None
