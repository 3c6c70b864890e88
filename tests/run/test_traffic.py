"""The kernel's counters on this machine: real sockets of this process, no rank and no host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ipexctl.common.exchange_report import RankGroup
from ipexctl.common.run_events import Exchanged
from ipexctl.remote.rank import socket_table
from ipexctl.remote.run import rank_records
from ipexctl.remote.run import traffic as module


@pytest.fixture
def traffic(tmp_path: Path):
    call = SimpleNamespace(
        programs=SimpleNamespace(site=lambda: str(tmp_path)),
        plan=SimpleNamespace(modules={"rank_groups": ""}),
        events=[], reports=[],
    )  # fmt: skip
    call.emit, call.report = call.events.append, call.reports.append
    made = module.TrafficReader(call, 1)
    made.add(3, os.getpid(), os.getppid())
    return made


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


def talk(one: socket.socket, other: socket.socket, size: int) -> None:
    one.sendall(b"x" * size)
    assert len(other.recv(size, socket.MSG_WAITALL)) == size


def sums_of(watch: module.TrafficReader, one: socket.socket) -> list[int]:
    return watch.sums().get((3, one.getsockname()[0], one.getpeername()[0]), [0, 0])


def test_bytes_of_both_directions_are_summed(traffic, pair):
    one, other = pair
    before = looked(traffic, one)
    talk(one, other, 5000)
    talk(other, one, 70)
    after = looked(traffic, one)
    # both ends are this process'; other tests of this machine are not
    assert [b - a for a, b in zip(before, after, strict=True)] == [5070, 5070]
    assert sum(traffic.exchanged()[3]) >= 2 * 5070
    assert 3 not in traffic.sent()  # not to another host


def looked(watch: module.TrafficReader, one: socket.socket) -> list[int]:
    watch.look()
    watch.look()
    return sums_of(watch, one)


def test_what_was_seen_stays_when_a_connection_has_closed(traffic, pair):
    one, other = pair
    talk(one, other, 4321)
    before = looked(traffic, one)
    names = one.getsockname()[0], one.getpeername()[0]
    one.close()
    other.close()
    traffic.look()
    assert traffic.sums()[(3, *names)] == before


def test_a_connection_with_the_ends_of_an_earlier_one_is_counted_too(traffic):
    key = ("10.0.0.1", 4000, "10.0.0.2", 5000)
    traffic.owners = {9: 3}
    for sent in (100, 150, 20):
        one = socket_table.Connection(key, 0, 9, sent, 1, 1, 0, (0, 0), 0.0, 0.5)
        traffic.count([one])
        traffic.count([])
    assert traffic.sums() == {(3, "10.0.0.1", "10.0.0.2"): [170, 2]}
    assert traffic.sent() == {3: [170, 0.5]}


def test_the_rendezvous_does_not_count(traffic, pair):
    one, other = pair
    traffic.store = one.getpeername()[1]
    talk(one, other, 9000)
    assert max(looked(traffic, one)) < 9000


def test_a_rank_that_is_known_after_its_sockets_owns_them_too(traffic, pair):
    one, other = pair
    traffic.remove(3)
    talk(one, other, 50)
    assert looked(traffic, one) == [0, 0]
    traffic.add(3, os.getpid(), os.getppid())
    assert min(looked(traffic, one)) >= 50


def test_a_connection_of_the_wrapper_is_not_the_ranks(traffic, pair) -> None:
    """MPI's own, which a rank inherits and which stays open when the rank has ended."""
    one, _ = pair
    os.set_inheritable(one.fileno(), True)
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        traffic.remove(3)
        traffic.add(7, child.pid, os.getpid())
        traffic.look()
        traffic.look()
        ours = int(os.readlink(f"/proc/self/fd/{one.fileno()}")[8:-1])
        assert ours in socket_table.sockets_of(child.pid)
        assert traffic.sums() == {}
        child.kill()


def test_only_so_many_pairs_of_addresses_are_told_apart(traffic, monkeypatch):
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 2)
    for number in range(5):
        traffic.links["a", 1, f"b{number}", 2] = (3, 10, 20)
        traffic.forget(("a", 1, f"b{number}", 2))
    assert traffic.sums() == {(3, "a", "b0"): [10, 20], (3, "a", "b1"): [10, 20],
                              (3, "", ""): [30, 60]}  # fmt: skip
    assert all(row[1] for row in traffic.last_report().moved)


def test_a_kernel_without_counters_leaves_bytes_out(traffic, monkeypatch):
    monkeypatch.setattr(module, "EVERY", 0.0)

    def refuse() -> list:
        raise OSError(2, "planted")

    monkeypatch.setattr(socket_table, "list_connections", refuse)
    rounds = iter([False, False, True])
    traffic.loop(lambda: next(rounds))
    assert traffic.last_report().moved == ()


def test_messages_that_are_cut_or_odd_are_passed_over():
    assert list(socket_table.split_messages(b"")) == []
    assert list(socket_table.split_messages(b"\x08\0\0\0" + b"\0" * 12)) == []
    whole = socket_table.HEAD.pack(20, 20, 0, 0, 0) + b"abcd"
    assert list(socket_table.split_messages(whole + whole[:10])) == [(20, b"abcd")]


# --- what ranks say ------------------------------------------------------------------------------


GROUP = {"ranks": [2, 3], "backend": "gloo", "data": True, "count": 7}
SAID = {
    "rank": 3, "seconds": 9.0, "ended": False, "joined": False, "master": "", "place": None,
    "world": None, "torch": "2.13.0", "others": [], "groups": [],
}  # fmt: skip


def write(folder: Path, pid: int, at: int = 1, **more: object) -> None:
    said = {**SAID, "pid": pid, **more}
    (folder / f"{pid}-{at}.groups").write_text(json.dumps(said))


def test_of_a_rank_its_own_process_and_those_in_a_group_are_told(traffic, tmp_path):
    mine = os.getpid()
    write(tmp_path, mine)
    write(tmp_path, 77)  # a worker of a data loader
    write(tmp_path, 78, joined=True, groups=[GROUP])
    write(tmp_path, 79, joined=True, rank=9)  # not of this host
    (tmp_path / "80-1.groups").write_text('{"half')
    (tmp_path / "81-1.groups").write_text(" " * (rank_records.LARGEST + 1))
    report = traffic.last_report()
    main, worker = sorted(report.processes, key=lambda process: process.joined)
    assert (main.rank, main.main, main.joined, main.groups) == (3, True, False, ())
    assert (worker.rank, worker.main, worker.joined) == (3, False, True)
    assert worker.groups == (RankGroup((2, 3), "gloo", True, 7),)
    assert all(0 <= process.age < 60 for process in report.processes)
    assert report.silent == ""


@pytest.mark.parametrize(
    "more",
    [
        {"groups": [7]}, {"groups": 7}, {"groups": [[[2, 3], "gloo", True, 7]]},
        {"groups": [{**GROUP, "count": "7"}]}, {"others": "ray"}, {"others": [1]},
        {"ended": None}, {"master": 1}, {"place": "0"}, {"seconds": None},
    ],
)  # fmt: skip
def test_what_a_rank_wrote_in_another_form_is_left_out(traffic, tmp_path, more):
    write(tmp_path, os.getpid(), **more)
    write(tmp_path, 78, joined=True)
    assert [process.main for process in traffic.last_report().processes] == [False]


def test_a_process_that_replaced_itself_speaks_once(traffic, tmp_path):
    write(tmp_path, os.getpid(), 1000, torch="1.0")
    write(tmp_path, os.getpid(), 2000, torch="2.0")
    assert [process.torch for process in traffic.last_report().processes] == ["2.0"]


def test_an_event_is_sent_when_a_rank_says_something_new(traffic, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "EVERY", 0.0)
    write(tmp_path, os.getpid())
    traffic.told = time.monotonic() - 60
    for again in ([False, True], [False, True]):
        rounds = iter(again)
        traffic.loop(lambda rounds=rounds: next(rounds))
        assert len(traffic.call.events) == 1
    (event,) = traffic.call.events
    assert isinstance(event, Exchanged) and not event.report.complete


def test_what_ranks_said_stays_when_the_folder_is_gone_and_ranks_may_not_be_asked(tmp_path):
    records = rank_records.Records(str(tmp_path), {"rank_groups": ""})
    records.add(3, 5)
    write(tmp_path, 5)
    assert (records.read(), records.read()) == (True, False)
    (tmp_path / "5-1.groups").unlink()
    tmp_path.rmdir()
    assert (records.read(), len(records.processes())) == (False, 1)
    assert "--no-inspect" in rank_records.Records(str(tmp_path), {"python_exit": ""}).silent
