"""The kernel's counters on this machine: real sockets of this process, no rank and no host."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time

import pytest

from ipexctl.remote.rank import socket_table
from ipexctl.remote.run import traffic as module


class Call:
    def __init__(self) -> None:
        self.events: list[dict] = []
        self.reports: list[dict] = []

    def report(self, event: dict) -> None:
        self.reports.append(event)

    def emit(self, event: dict) -> None:
        self.events.append(event)

    def links(self) -> dict[tuple, tuple[int, int]]:
        found = [link for event in self.events for link in event.get("links", [])]
        return {tuple(link[:5]): (link[5], link[6]) for link in found}


@pytest.fixture
def traffic():
    call = Call()
    watch = module.Traffic(call, 1)
    watch.add(3, os.getpid(), os.getppid())
    yield module, watch, call
    if watch.sockets is not None:
        watch.sockets.close()


@pytest.fixture(params=[(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def pair(request):
    family, address = request.param
    server = socket.socket(family)
    try:
        server.bind((address, 0))
    except OSError:
        pytest.skip("no IPv6 here")
    server.listen(1)
    one = socket.create_connection(server.getsockname()[:2])
    other, _ = server.accept()
    yield one, other
    for s in (one, other, server):
        s.close()


def key_of(s: socket.socket) -> tuple:
    return (3, *s.getsockname()[:2], *s.getpeername()[:2])


def talk_and_close(watch, one: socket.socket, other: socket.socket) -> tuple:
    """4321 bytes and the end, between two looks."""
    watch.report()
    key = key_of(one)
    one.sendall(b"x" * 4321)
    assert len(other.recv(4321, socket.MSG_WAITALL)) == 4321
    one.close()
    other.close()
    return key


def test_bytes_of_both_directions_are_counted_and_told_once(traffic, pair):
    _, watch, call = traffic
    one, other = pair
    one.sendall(b"x" * 5000)
    assert len(other.recv(5000, socket.MSG_WAITALL)) == 5000
    other.sendall(b"y" * 70)
    assert len(one.recv(70, socket.MSG_WAITALL)) == 70
    watch.report()
    mine = call.links()[key_of(one)]
    assert mine[1] == 70 and 5000 <= mine[0] <= 5001  # the opening of a connection counts as one
    before = len(call.events)
    watch.report()
    later = call.events[before:]  # others on this machine may have opened and closed some
    assert not any(event["links"] for event in later)


def test_what_went_through_a_socket_since_the_last_look_counts_when_it_has_closed(traffic, pair):
    _, watch, call = traffic
    one, other = pair
    key = talk_and_close(watch, one, other)
    deadline = time.monotonic() + 5.0  # the kernel tells a moment later
    while call.links()[key][0] < 4321 and time.monotonic() < deadline:
        time.sleep(0.02)
        watch.report()
    assert 4321 <= call.links()[key][0] <= 4323  # its end counts, too


def test_looks_are_frequent_when_a_rank_has_reached_the_rendezvous(traffic, pair):
    module, watch, _ = traffic
    watch.links = {("a", 1, "b", 2): (3, 9, 9)}
    watch.report()
    watch.met = 0.0
    assert watch.pause() == module.OFTEN
    watch.links = {("a", 1, "b", 2): (3, 9, 9)}
    watch.store = pair[0].getpeername()[1]
    watch.report()
    assert watch.pause() == module.JUST


def test_a_rank_that_is_known_after_its_sockets_owns_them_too(traffic, pair):
    _, watch, call = traffic
    one, _ = pair
    watch.remove(3)
    watch.add(4, 1 << 22, 1 << 22)  # no process has this pid
    watch.report()
    watch.add(3, os.getpid(), os.getppid())
    one.sendall(b"x" * 50)
    watch.report()
    assert key_of(one) in call.links()


def test_the_start_of_a_rank_brings_the_next_look_at_once(traffic, pair):
    module, watch, call = traffic
    one, _ = pair
    watch.pids, watch.young = {}, 0.0
    assert watch.pause() == module.SELDOM
    over = threading.Event()
    watch.came.clear()
    loop = threading.Thread(target=watch.loop, args=(over.is_set,))
    watch.pause = lambda: 30.0
    loop.start()
    watch.add(3, os.getpid(), os.getppid())
    deadline = time.monotonic() + 10.0
    while key_of(one) not in call.links() and time.monotonic() < deadline:
        time.sleep(0.01)
    over.set()
    watch.came.set()
    loop.join()
    assert key_of(one) in call.links()


def test_a_connection_that_came_and_went_is_told_once(traffic, pair):
    _, watch, call = traffic
    watch.pids = {3: 1 << 22}  # its owner is not found
    key = talk_and_close(watch, *pair)[1:]
    watch.foreign = set()  # as if it had opened after the last look

    def told() -> list:
        return [s for e in call.events for s in e.get("strays", []) if tuple(s[:4]) == key]

    deadline = time.monotonic() + 5.0
    while not told() and time.monotonic() < deadline:
        time.sleep(0.02)
        watch.foreign = set()
        watch.report()
    watch.report()
    assert len(told()) == 1


def test_only_so_many_connections_are_kept(traffic):
    module, watch, call = traffic
    watch.links = {("a", n, "b", 1): (3, n, n) for n in range(1, 2000)}
    reported = watch.news()
    assert (len(watch.links), len(reported)) == (module.KEPT, module.LARGEST)
    assert max(link[2] for link in reported) == 1999


def test_a_kernel_without_the_counters_is_told_once_and_not_asked_again(traffic, monkeypatch):
    module, watch, call = traffic

    class NoSockets:
        missed = False

        def open(self):
            raise OSError(2, "planted")

        def close(self):
            pass

    watch.sockets = NoSockets()
    watch.report()
    watch.report()
    assert [e["trouble"].rpartition(": ")[2] for e in call.events] == ["planted"]


def test_messages_that_are_cut_or_odd_are_passed_over(traffic):
    module, _, _ = traffic
    assert list(socket_table.messages(b"")) == []
    assert list(socket_table.messages(b"\x08\0\0\0" + b"\0" * 12)) == []
    whole = socket_table.HEAD.pack(20, 20, 0, 0, 0) + b"abcd"
    assert list(socket_table.messages(whole + whole[:10])) == [(20, b"abcd")]


def test_the_last_words_have_all_numbers_again(traffic, pair):
    _, watch, call = traffic
    key = talk_and_close(watch, *pair)
    watch.remove(3)
    last = watch.last_words()
    found = {tuple(link[:5]): link[5] for link in last["links"]}
    assert found[key] == call.links()[key][0] >= 4321
    assert (last["missed"], 0 < last["watched"] < 60) == ("", True)


def test_a_flood_of_closed_sockets_is_told_as_missed(traffic):
    _, watch, _ = traffic
    watch.report()
    watch.sockets.closing.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    server = socket.create_server(("127.0.0.1", 0))
    for _ in range(200):
        one = socket.create_connection(server.getsockname())
        server.accept()[0].close()
        one.close()
    watch.report()
    server.close()
    assert watch.missed() != ""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"7f1 rw-s 00000000 00:05 123                        /dev/infiniband/uverbs0\n", True),
        (b"7f1-7f2 r-xp 0 08:01 9     /usr/lib/libibverbs/librxe-rdmav34.so\n", False),
    ],
)
def test_a_rank_that_maps_a_device_of_rdma_leaves_it_open(traffic, monkeypatch, line, found):
    module, watch, _ = traffic
    monkeypatch.setattr(module, "maps_of", lambda pid: line)
    watch.report()
    assert bool(watch.missed()) is found


def test_a_socket_that_its_process_gets_a_moment_later_is_still_a_ranks(traffic, pair):
    module, watch, call = traffic
    pid, watch.pids = watch.pids, {3: 1 << 22}  # no process has this pid
    watch.report()
    watch.pids = pid
    pair[0].sendall(b"x" * 50)
    watch.report()
    assert key_of(pair[0]) in call.links()


def test_a_connection_of_the_wrapper_is_not_the_ranks(traffic, pair) -> None:
    """MPI's own, which a rank inherits and which stays open when the rank has ended."""
    _, watch, call = traffic
    one, other = pair
    ours = sockets_of_a_child(watch, one)
    assert ours == {int(os.readlink(f"/proc/self/fd/{one.fileno()}")[8:-1])}
    one.sendall(b"x" * 1000)
    assert len(other.recv(1000, socket.MSG_WAITALL)) == 1000
    watch.report()
    assert call.links() == {}
    began = time.monotonic()
    watch.remove(7)
    assert time.monotonic() - began < module.CLOSING / 2


def sockets_of_a_child(watch, inherited: socket.socket) -> set[int]:
    """Rank 7 is a process that has what its wrapper, this process, has handed down."""
    os.set_inheritable(inherited.fileno(), True)
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        watch.pids.clear()
        watch.add(7, child.pid, os.getpid())
        for _ in range(3):  # whose a socket is, is settled at the second look
            watch.report()
        found: set[int] = socket_table.sockets_of(child.pid)
        child.kill()
    return found
