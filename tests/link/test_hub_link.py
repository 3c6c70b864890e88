"""The link between the supervisors of a run, with real sockets and real TLS."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.remote.connection import hub_link, link_thread
from ipexctl.remote.connection.hub_link import HubListener, Spoke
from tests.link.links import HOSTS, KEYS, CuttingProxy, cluster
from tests.processes import interpreter

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_messages_go_both_ways_in_order(address: str) -> None:
    got: list[Any] = []
    with cluster(address) as c:
        spoke = Spoke("node1", "node0", KEYS, got.append)
        c.opened.append(spoke)
        spoke.send({"before": "connecting"})
        c.hub.send("node1", {"before": "connecting"})
        assert not spoke.connected()
        spoke.connect(address, c.port)
        for number in range(1000):
            spoke.send([number, "ü", None])
            c.hub.send("node1", number)
        c.hub.send("unknown", 0)
        assert spoke.flush(20) and c.hub.flush(20)
        assert c.taken["node1"] == [{"before": "connecting"}] + [
            [n, "ü", None] for n in range(1000)
        ]
        assert got == [{"before": "connecting"}, *range(1000)]
        assert (c.hub.connected(), spoke.connected()) == ({"node1"}, True)


def test_each_message_arrives_once_and_in_order_over_50_cuts(monkeypatch) -> None:
    monkeypatch.setattr(hub_link, "RETRY", 0.01)
    monkeypatch.setattr(hub_link, "SLOWEST_RETRY", 0.02)
    got: list[int] = []
    with cluster() as c:
        proxy = CuttingProxy(c.port, seed=19)
        spoke = c.spoke("node1", port=proxy.port, take=got.append)
        sent = 0
        while proxy.cuts < 50:
            if sent - min(len(got), len(c.taken["node1"])) < 500:
                spoke.send(sent)
                c.hub.send("node1", sent)
                sent += 1
            else:
                time.sleep(0.001)
        proxy.cutting = False
        assert wait_until(lambda: min(len(got), len(c.taken["node1"])) == sent, 60)
        proxy.close()
    assert got == list(range(sent))
    assert c.taken["node1"] == list(range(sent))
    assert sent > 500


@pytest.mark.parametrize("value", [float("nan"), 10**3000, json.loads("[" * 41 + "]" * 41)])
def test_a_message_that_cannot_be_read_is_told_as_none_and_does_not_come_again(value: Any) -> None:
    """Else its host would send it for ever, and each time count as heard."""
    with cluster() as c:
        spoke = c.spoke("node1")
        for message in ("before", {"odd": value}, "after"):
            spoke.send(message)
        assert spoke.flush(20)
        assert c.taken["node1"] == ["before", None, "after"]


def test_a_large_message_and_many_at_once_arrive() -> None:
    got: list[Any] = []
    with cluster() as c:
        spoke = c.spoke("node1", take=got.append)
        assert wait_until(spoke.connected)
        channel = c.hub.ends["node1"].channel
        large = ["x" * 1_000_000 + str(n) for n in range(10)] + ["x" * ((1 << 20) - 2)]
        for text in large:
            c.hub.send("node1", text)
            spoke.send(text)
        assert c.hub.flush(30) and spoke.flush(30)
        assert (got, c.taken["node1"]) == (large, large)
        assert c.hub.ends["node1"].channel is channel  # nothing of it had to be sent again
        with pytest.raises(ValueError, match="limit"):
            spoke.send("x" * (1 << 20))
        with pytest.raises(ValueError, match="limit"):
            c.hub.send("node1", "x" * (1 << 20))


def test_a_host_is_heard_while_it_says_nothing() -> None:
    with cluster() as c:
        made = c.hub.heard("node2")
        spoke = c.spoke("node1")
        assert wait_until(spoke.connected)
        at_hub, at_spoke = c.hub.heard("node1"), spoke.heard("node0")
        assert wait_until(
            lambda: c.hub.heard("node1") > at_hub and spoke.heard("node0") > at_spoke, 5
        )
        assert c.hub.heard("node2") == made


# Prints a line for each message, until stdin ends.
SPOKE = """
import json, sys
from ipexctl.remote.connection.hub_link import Spoke
name, keys, port = json.load(open(sys.argv[1]))
spoke = Spoke(name, "node0", keys, lambda m: spoke.send(["echo", m]))
spoke.connect("127.0.0.1", port)
sys.stdin.read()
spoke.flush(10)
spoke.close()
"""


def start_spoke(folder: Path, name: str, port: int) -> subprocess.Popen[bytes]:
    (folder / name).write_text(json.dumps([name, KEYS, port]))
    command = [sys.executable, "-c", SPOKE, str(folder / name)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)


def test_a_stopped_host_is_not_heard_and_misses_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(link_thread, "SILENCE", 2.0)
    with cluster() as c, start_spoke(tmp_path, "node1", c.port) as process:
        try:
            c.spoke("node2")
            assert wait_until(lambda: c.hub.connected() == {"node1", "node2"})
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.2)
            before = c.hub.heard("node1")
            c.hub.send("node1", 1)
            assert wait_until(lambda: "node1" not in c.hub.connected(), 10)
            assert c.hub.heard("node1") == before
            assert c.hub.heard("node2") > before
            assert c.hub.connected() == {"node2"}
            c.hub.send("node1", 2)
            os.kill(process.pid, signal.SIGCONT)
            assert wait_until(lambda: len(c.taken["node1"]) == 2)
            assert c.hub.heard("node1") > before
            c.hub.send("node1", 3)
            assert wait_until(lambda: len(c.taken["node1"]) == 3)
            assert c.taken["node1"] == [["echo", 1], ["echo", 2], ["echo", 3]]
        finally:
            process.kill()


def test_a_second_process_of_a_host_does_not_speak_for_the_first() -> None:
    """Its messages would be numbered from 1 again, and taken for repetitions."""
    with cluster() as c:
        first = c.spoke("node1")
        first.send("first")
        assert first.flush(20)
        channel = c.hub.ends["node1"].channel
        second = c.spoke("node1")
        second.send("second")
        assert wait_until(lambda: second.tries > 1)
        first.send("still here")
        assert first.flush(20)
        assert c.taken["node1"] == ["first", "still here"]
        assert c.hub.ends["node1"].channel is channel


def test_a_hub_keeps_so_much_for_a_host_that_is_away_and_then_gives_it_up() -> None:
    with cluster() as c:
        for number in range(10_000):
            c.hub.send("node1", number)
        c.hub.send("node2", "kept")
        c.hub.send("node1", "too much")
        assert not c.hub.ends["node1"].stream.pending()
        got: list[Any] = []
        away, other = c.spoke("node1", take=got.append), c.spoke("node2")
        heard = c.hub.heard("node1")
        away.send("too late")
        assert wait_until(lambda: away.tries > 1)
        assert wait_until(other.connected) and c.hub.flush(20)
        assert c.hub.connected() == {"node2"}
        assert (c.taken["node1"], got, c.hub.heard("node1")) == ([], [], heard)


def test_a_spoke_that_kept_too_much_connects_no_more(monkeypatch) -> None:
    monkeypatch.setattr(hub_link, "SLOWEST_RETRY", 0.1)
    with cluster() as c:
        spoke = Spoke("node1", "node0", KEYS, print)
        c.opened.append(spoke)
        for number in range(10_001):
            spoke.send(number)
        spoke.connect(c.address, c.port)
        time.sleep(0.5)
        assert (spoke.tries, spoke.connected()) == (0, False)


def test_flush_waits_for_those_connected_until_time_is_up(tmp_path) -> None:
    with cluster() as c, start_spoke(tmp_path, "node1", c.port) as process:
        try:
            c.hub.send("node2", "not connected")
            assert wait_until(lambda: c.hub.connected() == {"node1"})
            assert c.hub.flush(10)
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.2)
            c.hub.send("node1", "stopped")
            began = time.monotonic()
            assert not c.hub.flush(0.5)
            assert 0.4 < time.monotonic() - began < 5
        finally:
            process.kill()


def test_a_link_may_be_used_from_what_takes_its_messages(monkeypatch, capfd) -> None:
    """Sending, flushing and closing; and its errors cost no other message.

    A supervisor has the agent's excepthook, which ends the process.
    """
    monkeypatch.setattr("sys.excepthook", lambda *error: pytest.fail("the process ends"))
    with cluster() as c:
        done = []

        def take(name: str, message: Any) -> None:
            if message == "error":
                raise LookupError("in what takes it")
            c.hub.send(name, message)
            done.append((name, message, c.hub.flush(5)))
            if message == "close":
                c.hub.close()

        c.hub.deliver = lambda end, message: take(end.name, message)
        one, two = c.spoke("node1"), c.spoke("node2")
        for message in ("error", 1):
            one.send(message)
        assert one.flush(20)
        for message in ("close", "not taken"):
            two.send(message)
        assert wait_until(lambda: c.hub.thread is not None and not c.hub.thread.is_alive())
        assert done == [("node1", 1, False), ("node2", "close", False)]
    assert "LookupError: " in capfd.readouterr().err


def test_a_spoke_connects_when_the_hub_is_there_at_last(monkeypatch) -> None:
    monkeypatch.setattr(hub_link, "SLOWEST_RETRY", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with closing(Spoke("node1", "node0", KEYS, print)) as spoke:
        spoke.connect("127.0.0.1", port)
        assert wait_until(lambda: spoke.tries > 1)
        with cluster(ports=(port, port)):
            assert wait_until(spoke.connected)
        assert wait_until(lambda: not spoke.connected())


@pytest.mark.parametrize(
    ("address", "port"),
    [("no.such.host.invalid", 1), ("x" * 100, 1), ("127.0.0.1", 1 << 70), ("256.0.0.1", 1)],
)
def test_an_address_that_cannot_be_used_does_not_end_the_spoke(address: str, port: int) -> None:
    with closing(Spoke("node1", "node0", KEYS, print)) as spoke:
        spoke.connect(address, port)
        assert wait_until(lambda: spoke.retry > hub_link.RETRY)  # it has tried
        assert spoke.thread is not None and spoke.thread.is_alive()


def test_a_hub_takes_the_first_free_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hub = HubListener(["node1"], KEYS, print)
        with pytest.raises(OSError, match="in use"):
            hub.listen("127.0.0.1", (port, port))
        hub.close()
        with cluster(ports=(port, port + 20)) as c:
            assert port < c.port <= port + 20


# Two hosts in one process of another Python.
BOTH = """
import json, sys
from ipexctl.remote.connection.hub_link import HubListener, Spoke
keys = json.load(sys.stdin)
at_hub, at_spoke = [], []
hub = HubListener(["node1"], keys, lambda name, m: at_hub.append([name, m]))
spoke = Spoke("node1", "node0", keys, at_spoke.append)
stranger = Spoke("node2", "node0", keys, print)
port = hub.listen("127.0.0.1")
spoke.connect("127.0.0.1", port)
for number in range(100):
    spoke.send(number)
    hub.send("node1", number)
spoke.flush(20)
hub.flush(20)
stranger.connect("127.0.0.1", port)
stranger.flush(0)
for one in (stranger, spoke, hub):
    one.close()
print(json.dumps([at_hub, at_spoke]))
"""


@pytest.mark.parametrize("minor", range(6, 15))
def test_an_old_python_is_enough(minor: int) -> None:
    command = [interpreter(minor), "-W", "error", "-c", BOTH]
    done = subprocess.run(
        command, cwd=ROOT, input=json.dumps(KEYS), capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == [[["node1", n] for n in range(100)], list(range(100))]


WITHOUT_SSL = """
import sys
sys.modules["ssl"] = None
from ipexctl.remote.connection.hub_link import HubListener, Spoke
from ipexctl.remote.failure import Failure
for make in (lambda: HubListener(["b"], {}, print), lambda: Spoke("b", "a", {}, print)):
    try:
        make()
    except Failure as e:
        print(e.slug)
"""


def test_a_python_without_ssl_may_import_it_but_not_use_it() -> None:
    command = [sys.executable, "-c", WITHOUT_SSL]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("python-without-ssl\n" * 2, "")


def test_no_key_is_in_a_file(tmp_path, monkeypatch) -> None:
    """Pipes hold it: there is nothing to write to, and nothing stays open."""
    for name in ("TMPDIR", "HOME"):
        monkeypatch.setenv(name, "/nonexistent")
    before = set(os.listdir("/proc/self/fd"))
    hub = HubListener(HOSTS[1:], KEYS, print)
    hub.close()
    assert set(os.listdir("/proc/self/fd")) == before


HUB = """
import json, os, signal, sys, time
from ipexctl.remote.connection.hub_link import HubListener
hub = HubListener(["node1"], json.loads(sys.stdin.readline()), lambda name, message: None)
print(hub.listen("127.0.0.1"), flush=True)
sys.stdin.readline()
hub.close()
"""


@contextlib.contextmanager
def hub_process() -> Iterator[tuple[subprocess.Popen[str], Spoke]]:
    """A hub in a process of its own, and a spoke that is connected to it."""
    argv = [sys.executable, "-c", HUB]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hub:
        assert hub.stdin is not None and hub.stdout is not None
        hub.stdin.write(json.dumps(KEYS) + "\n")
        hub.stdin.flush()
        spoke = Spoke("node1", "node0", KEYS, lambda message: None)
        spoke.connect("127.0.0.1", int(hub.stdout.readline()))
        try:
            assert wait_until(spoke.connected)
            yield hub, spoke
        finally:
            hub.kill()
            spoke.close()


def test_a_hub_that_was_killed_is_known_to_be_gone() -> None:
    with hub_process() as (hub, spoke):
        assert spoke.absent("node0") == 0.0
        hub.kill()
        assert wait_until(lambda: spoke.absent("node0") > 0.3, 5.0)


def test_a_hub_that_is_stopped_or_says_goodbye_is_not() -> None:
    with hub_process() as (hub, spoke):
        hub.send_signal(signal.SIGSTOP)
        time.sleep(1.0)
        assert spoke.absent("node0") == 0.0
        hub.send_signal(signal.SIGCONT)
        assert hub.stdin is not None
        hub.stdin.close()
        assert wait_until(lambda: not spoke.connected())
        time.sleep(1.0)
        assert spoke.absent("node0") == 0.0


LONE_SPOKE = """
import json, sys, time
from ipexctl.remote.connection.hub_link import Spoke
spoke = Spoke("node1", "node0", json.loads(sys.stdin.readline()), lambda message: None)
spoke.connect("127.0.0.1", int(sys.argv[1]))
while not spoke.connected():
    time.sleep(0.01)
print("connected", flush=True)
time.sleep(60)
"""


def test_a_spoke_that_was_killed_is_known_to_be_gone() -> None:
    with cluster() as made:
        argv = [sys.executable, "-c", LONE_SPOKE, str(made.port)]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as spoke:
            assert spoke.stdin is not None and spoke.stdout is not None
            spoke.stdin.write(json.dumps(KEYS) + "\n")
            spoke.stdin.flush()
            # Killed with something unread, its kernel would reset the connection instead.
            assert spoke.stdout.readline() == "connected\n"
            assert wait_until(lambda: "node1" in made.hub.connected())
            assert made.hub.absent("node1") == 0.0
            spoke.kill()
            assert wait_until(lambda: made.hub.absent("node1") > 0.3, 5.0)
        assert made.hub.absent("node2") == 0.0


def test_a_spoke_that_connects_again_is_not_gone() -> None:
    with cluster() as made, contextlib.closing(CuttingProxy(made.port, 1)) as proxy:
        spoke = made.spoke("node1", port=proxy.port)
        for number in range(2000):
            spoke.send(number)
        assert wait_until(lambda: proxy.cuts > 4)
        proxy.cutting = False
        assert wait_until(lambda: len(made.taken["node1"]) == 2000 and spoke.connected())
        assert (made.hub.absent("node1"), spoke.absent("node0")) == (0.0, 0.0)


@pytest.mark.parametrize("renews", [True, False])
def test_a_host_that_comes_back_with_another_process(renews):
    with cluster(renews=renews) as made:
        heard: list[list[Any]] = [[], []]
        first = made.spoke("node1", take=heard[0].append)
        first.send("from the first")
        made.hub.send("node1", "to the first")
        assert wait_until(lambda: heard[0] and made.taken["node1"])
        first.close()
        assert wait_until(lambda: "node1" not in made.hub.connected())
        made.hub.send("node1", "lost with it")
        second = made.spoke("node1", take=heard[1].append)
        second.send("from the second")
        assert wait_until(lambda: len(made.taken["node1"]) == 2, 20.0 if renews else 2.0) is renews
        if renews:
            made.hub.send("node1", "to the second")
            assert wait_until(lambda: heard[1])
            assert heard[1] == ["to the second"]
