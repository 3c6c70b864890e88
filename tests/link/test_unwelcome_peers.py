"""Who connects to a hub and is none of its hosts, or does not behave like one."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.blobs.tls_keys import Keys
from ipexctl.common.waiting import wait_until
from ipexctl.remote.connection import peer_tls, tls_channel
from ipexctl.remote.connection.hub_link import Spoke
from ipexctl.remote.connection.link_stream import (
    BEAT,
    HEAD,
    HELLO,
    LIMIT,
    MESSAGE,
    RecordDecoder,
    pack_frame,
)
from tests.link.links import HOSTS, KEYS, OTHER_RUN, Cluster, cluster

ROOT = Path(__file__).parents[2]
TOKEN = b"0123456789abcdef"
HELLO_OF_2 = pack_frame(HELLO, 0, TOKEN + b"node2")


@pytest.fixture
def busy(capfd) -> Iterator[Cluster]:
    """A hub with a host. In the end that has lost nothing, on the connection that it had."""
    with cluster() as c:
        spoke = c.spoke("node1")
        assert wait_until(spoke.connected)
        channel = c.hub.ends["node1"].channel
        spoke.send("before")
        assert spoke.flush(20)
        yield c
        spoke.send("after")
        assert spoke.flush(20)
        assert c.taken["node1"] == ["before", "after"]
        assert c.hub.ends["node1"].channel is channel
        assert "Traceback" not in capfd.readouterr().err


def tls(c: Cluster, keys: Keys | None) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=KEYS["cert"])
    if keys:
        peer_tls.with_paths(context.load_cert_chain, keys["cert"], keys["key"])
    return context.wrap_socket(socket.create_connection((c.address, c.port), timeout=20))


def closed(sock: socket.socket) -> bool:
    """Does the other end close it? Whatever came before is read."""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        while sock.recv(65536):
            pass
    return True


@pytest.mark.parametrize("keys", [None, OTHER_RUN], ids=["none", "of another run"])
def test_a_peer_without_a_certificate_of_the_run_is_refused(busy, keys) -> None:
    with contextlib.suppress(ssl.SSLError, ConnectionError), tls(busy, keys) as sock:
        sock.sendall(HELLO_OF_2 + pack_frame(MESSAGE, 1, b'"intruder"'))
        assert closed(sock)
    assert busy.hub.connected() == {"node1"}
    assert busy.taken["node2"] == []


def test_a_spoke_with_a_certificate_of_another_run_is_not_connected(busy) -> None:
    wrong = busy.spoke("node2", keys=OTHER_RUN)
    half = busy.spoke("node2", keys=OTHER_RUN)
    half.context.load_verify_locations(cadata=KEYS["cert"])
    assert wait_until(lambda: min(wrong.tries, half.tries) > 2)
    assert not (wrong.was_connected() or half.was_connected())
    assert busy.hub.connected() == {"node1"}


def test_a_name_that_is_not_a_host_of_the_run_is_refused(busy) -> None:
    for name in ("node0", "node9", ""):
        other = busy.spoke(name)
        assert wait_until(lambda: other.tries > 1)  # noqa: B023
        assert not other.was_connected()


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(70_000)]
)
def test_bytes_that_are_not_tls_are_answered_by_closing(busy, data) -> None:
    with socket.create_connection((busy.address, busy.port), timeout=20) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(data)
        assert closed(sock)


def test_tls_before_1_2_is_refused(busy) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    sock = socket.create_connection((busy.address, busy.port), timeout=20)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(sock)


@pytest.mark.parametrize("begun", [False, True], ids=["says nothing", "after its handshake"])
def test_a_connection_that_does_not_go_on_is_closed(busy, monkeypatch, begun) -> None:
    monkeypatch.setattr(tls_channel, "PATIENCE", 1.0)
    plain = socket.create_connection((busy.address, busy.port), timeout=20)
    with tls(busy, KEYS) if begun else plain as sock:
        assert closed(sock)
    assert busy.hub.connected() == {"node1"}


@pytest.mark.parametrize(
    "data",
    [
        HEAD.pack(MESSAGE, 1, LIMIT + 1),
        HEAD.pack(MESSAGE, 1, (1 << 32) - 1),
        pack_frame(9),
        pack_frame(MESSAGE, 2, b"1"),
        pack_frame(BEAT, 1),
        HELLO_OF_2,
    ],
    ids=["large", "huge", "kind", "gap", "not sent", "second hello"],
)
def test_a_host_that_breaks_the_format_is_closed_and_may_come_back(busy, data) -> None:
    with tls(busy, KEYS) as sock:
        sock.sendall(HELLO_OF_2)
        assert wait_until(lambda: "node2" in busy.hub.connected())
        sock.sendall(data)
        assert closed(sock)
    assert wait_until(lambda: busy.hub.connected() == {"node1"})
    with tls(busy, KEYS) as sock:
        sock.sendall(HELLO_OF_2 + pack_frame(MESSAGE, 1, b'"back"'))
        assert wait_until(lambda: busy.taken["node2"] == ["back"])


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b"NaN", b""])
def test_a_message_that_is_none_counts_as_one(busy, body) -> None:
    with tls(busy, KEYS) as sock:
        sock.sendall(HELLO_OF_2 + pack_frame(MESSAGE, 1, body) + pack_frame(MESSAGE, 2, b"2"))
        assert wait_until(lambda: busy.taken["node2"] == [None, 2])


@pytest.mark.parametrize(
    "data",
    [pack_frame(MESSAGE, 1, b"1"), pack_frame(BEAT, 0), pack_frame(HELLO, 1, TOKEN + b"node2")],
)
def test_a_host_greets_first_and_knows_only_what_was_sent(busy, data) -> None:
    with tls(busy, KEYS) as sock:
        sock.sendall(data)
        assert closed(sock)
    assert busy.taken["node2"] == []


def test_the_newest_connection_of_a_host_is_used(busy) -> None:
    busy.hub.send("node2", "for whoever is node2")
    with tls(busy, KEYS) as old, tls(busy, KEYS) as new:
        old.sendall(HELLO_OF_2)
        assert wait_until(lambda: "node2" in busy.hub.connected())
        new.sendall(HELLO_OF_2 + pack_frame(MESSAGE, 1, b'"new"'))
        assert closed(old)
        assert wait_until(lambda: busy.taken["node2"] == ["new"])
        found = b""
        while b"for whoever" not in found:
            found += new.recv(65536)


def test_a_thousand_connections_stop_no_messages(busy, monkeypatch) -> None:
    """Some say nothing, some nonsense; a host that has lost its connection gets through."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    sockets: list[socket.socket] = []
    spoke = busy.spoke("node2")
    try:
        for number in range(1000):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex((busy.address, busy.port))
            sockets.append(sock)
            if number % 3 == 0:
                with contextlib.suppress(OSError):
                    sock.send(b"nonsense" * 100)
            if number % 10 == 0:
                spoke.send(number)
                assert spoke.flush(20)
        late = busy.spoke("node3")
        late.send("through")
        assert late.flush(20)
        assert busy.taken["node2"] == list(range(0, 1000, 10))
        assert len(busy.hub.unfinished) <= 2 * 3 + 16
    finally:
        for sock in sockets:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


FEW_FILES = """
import json, resource, ssl, sys, time
from ipexctl.remote.connection.hub_link import HubListener
names, keys = json.load(sys.stdin)
hub = HubListener(names, keys, lambda name, m: hub.send(name, m))
resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
print(hub.listen("127.0.0.1"), flush=True)
time.sleep(60)
"""


def test_a_hub_without_a_free_file_makes_room(tmp_path) -> None:
    (tmp_path / "keys").write_text(json.dumps([HOSTS + [f"x{n}" for n in range(40)], KEYS]))
    command = [sys.executable, "-c", FEW_FILES]
    with (
        (tmp_path / "keys").open() as stdin,
        subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE) as process,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout
        port = int(process.stdout.readline())
        got: list[str] = []
        spoke = Spoke("node1", "node0", KEYS, got.append)
        stack.callback(spoke.close)
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        spoke.connect("127.0.0.1", port)
        spoke.send("through")
        assert wait_until(lambda: got == ["through"])
        time.sleep(0.2)
        assert spoke.connected()


def test_a_host_that_reads_late_gets_all_of_it_on_its_connection(busy) -> None:
    """More than the kernel takes; the other hosts do not wait for it."""
    texts = ["x" * 1_000_000 + str(n) for n in range(14)]
    with tls(busy, KEYS) as sock:
        sock.sendall(HELLO_OF_2)
        assert wait_until(lambda: "node2" in busy.hub.connected())
        for text in texts:
            busy.hub.send("node2", text)
        channel = busy.hub.ends["node2"].channel
        assert wait_until(lambda: channel.unsent)
        busy.hub.send("node1", "at once")
        assert wait_until(lambda: not busy.hub.ends["node1"].stream.pending())
        decoder, got = RecordDecoder(), []
        while len(got) < len(texts):
            for kind, _, body in decoder.feed(sock.recv(65536)):
                if kind == MESSAGE:
                    got.append(json.loads(body))
                    sock.sendall(pack_frame(BEAT, len(got)))
        assert got == texts
        assert wait_until(lambda: not busy.hub.ends["node2"].stream.pending())
