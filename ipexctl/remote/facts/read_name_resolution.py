"""Resolve the own names of this host, in a thread."""

import os
import socket
import threading

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any


def begin_lookup() -> "Lookup":
    return Lookup([os.uname().nodename, "localhost"])


class Lookup:
    """Resolve names in a thread: a resolver can be slow."""

    def __init__(self, names: "list[str]") -> None:
        self.names = names
        # addresses by name; [] if there are none, no entry without an answer
        self.found = {}  # type: dict[str, list[str]]
        self.thread = threading.Thread(target=self.run)
        self.thread.daemon = True
        self.thread.start()

    def run(self) -> None:
        for name in self.names:
            try:
                # bytes: a str would import the idna codec
                infos = socket.getaddrinfo(name.encode(), None, 0, socket.SOCK_STREAM)
                self.found[name] = [str(i[4][0]) for i in infos]
            except socket.gaierror as e:
                if e.args[0] != socket.EAI_AGAIN:
                    self.found[name] = []
            except UnicodeError:  # no name at all
                self.found[name] = []
            except OSError:
                pass

    def wait(self, seconds: float) -> None:
        self.thread.join(seconds)


def wait_for_names(names: "Lookup") -> "dict[str, Any]":
    names.wait(2.0)
    addresses, localhost = (names.found.get(name) for name in names.names)
    facts = {
        "hostname_addresses": addresses or [],
        "hostname_resolves": None if addresses is None else bool(addresses),
        "resolver_silent": addresses is None,
    }
    if localhost is not None:
        facts["localhost"] = localhost
    return facts
