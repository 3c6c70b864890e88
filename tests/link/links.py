"""Hubs and spokes on this machine, and a proxy between them that cuts connections."""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from ipexctl.blobs.tls_keys import Keys, make_keys
from ipexctl.remote.connection.hub_link import HubListener, Spoke

HOSTS = ["node0", "node1", "node2", "node3"]
KEYS = make_keys()
OTHER_RUN = make_keys()


class Cluster:
    """A hub on node0. `taken` has what each host sent to it."""

    def __init__(
        self, address: str = "127.0.0.1", ports: tuple[int, int] | None = None, *,
        renews: bool = False,
    ) -> None:  # fmt: skip
        self.taken: dict[str, list[Any]] = {name: [] for name in HOSTS[1:]}
        self.hub = HubListener(HOSTS[1:], KEYS, lambda name, m: self.taken[name].append(m), renews)
        self.address = address
        self.port = self.hub.listen(address, ports)
        self.opened: list[Any] = [self.hub]

    def spoke(
        self,
        name: str,
        *,
        keys: Keys | None = None,
        hub: str = "node0",
        port: int | None = None,
        take: Callable[[Any], Any] = lambda m: None,
    ) -> Spoke:
        spoke = Spoke(name, hub, keys or KEYS, take)
        self.opened.append(spoke)
        spoke.connect(self.address, port or self.port)
        return spoke

    def close(self) -> None:
        for one in self.opened[::-1]:
            one.close()
            assert one.thread is None or not one.thread.is_alive()


@contextlib.contextmanager
def cluster(*args: Any, **kwargs: Any) -> Iterator[Cluster]:
    with closing(Cluster(*args, **kwargs)) as made:
        yield made


class CuttingProxy:
    """Passes bytes on, and cuts each connection after a random number of them while `cutting`."""

    def __init__(self, port: int, seed: int) -> None:
        self.target = ("127.0.0.1", port)
        self.random = random.Random(seed)
        self.cutting = True
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            with near, socket.create_connection(self.target) as far:
                self.pass_on(near, far)

    def pass_on(self, near: socket.socket, far: socket.socket) -> None:
        left = self.random.choice([self.random.randrange(4000), self.random.randrange(40_000)])
        with selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in selector.select():
                    try:
                        data = key.fileobj.recv(4096)  # type: ignore[union-attr]
                        if not data:
                            return
                        key.data.sendall(data[:left] if self.cutting else data)
                    except OSError:
                        return
                    left -= len(data)
                    if self.cutting and left <= 0:
                        self.cuts += 1
                        if self.cuts % 2:  # every other one without a farewell
                            reset(near)
                            reset(far)
                        return

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def reset(sock: socket.socket) -> None:
    """Closing it destroys what is on its way."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
