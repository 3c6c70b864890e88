"""What a third party on the network of a lab sees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ipexctl.lab import Lab

SNIFFER = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
sys.stdout.buffer.write(b'ready\\n'); sys.stdout.flush()
with open(sys.argv[1], 'wb') as f:
    while True:
        f.write(s.recv(65536)); f.flush()
"""


@contextmanager
def sniffed(lab: Lab, path: Path) -> Iterator[None]:
    """Every packet at every port of the lab's switch goes to that file."""
    enter = ["nsenter", "-t", str(lab._switch), "-n"]
    argv = [*enter, sys.executable, "-c", SNIFFER, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield
        process.kill()
