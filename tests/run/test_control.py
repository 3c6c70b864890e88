"""The socket of a supervisor: who may ask, and who may answer."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ipexctl.common import tolerant_reads
from ipexctl.common.waiting import wait_until
from ipexctl.remote.facts import read_other_runs
from ipexctl.remote.failure import Failure
from ipexctl.remote.rank import rank_wrapper, socket_table
from ipexctl.remote.restart import core_queue
from ipexctl.remote.run import control

OTHER = 65534
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")


@pytest.fixture
def run(tmp_path: Path) -> str:
    """The folder of a run. Its supervisor's socket lives as long as this process."""
    folder = tmp_path / f"20260101-000000-{os.urandom(3).hex()}"
    folder.mkdir(0o700)
    return str(folder)


@pytest.fixture
def asked(run: str) -> list[dict]:
    heard: list[dict] = []

    def answer(message: dict) -> dict:
        heard.append(message)
        return {"alive": True}

    control.serve_control_socket(run, "node1", answer, lambda link: link.close())
    return heard


def address_of(run: str) -> str:
    """The name of the socket, as /proc/net/unix shows it to all accounts."""
    names = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()]
    (name,) = {name for name in names if f"/{os.path.basename(run)}/" in name}
    return "\0" + name[1:]


@contextmanager
def other_account(*, work: Callable[[Callable[[], None]], object]) -> Iterator[None]:
    """Another account does `work` beside this test, which goes on once `work` says so."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(OTHER)
            os.setuid(OTHER)
            work(lambda: os.write(tell, b"x") and None)
        finally:
            os._exit(0)
    os.close(tell)
    try:
        assert os.read(ready, 1) == b"x"
        yield
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(ready)


def as_other(work: Callable[[], object]) -> int:
    """The exit code of a child that is another user: 1 where `work` returned nothing."""
    child = os.fork()
    if child == 0:
        try:
            os.setgid(OTHER)
            os.setuid(OTHER)
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_supervisor_answers_and_is_gone_when_its_process_is(run: str, asked: list[dict]) -> None:
    assert control.ask_supervisor(run, "node1", {"ask": "state"}) == {"alive": True}
    assert control.ask_supervisor(run, "node2", {"ask": "state"}) is None
    assert control.ask_supervisor(run + "zz", "node1", {"ask": "state"}) is None
    assert asked == [{"ask": "state"}]
    assert control.is_alive(run, "node1")
    assert not control.is_alive(run, "node2")


@AS_ROOT
def test_another_user_is_not_heard(run: str, asked: list[dict]) -> None:
    name = address_of(run)

    def stop() -> object:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(5)
        link.connect(name)
        try:
            link.sendall(b'{"stop": "mallory"}\n')
            return link.recv(100)
        except OSError:
            return b""

    assert as_other(stop) == 1
    assert asked == []


def names_that_can_be_foretold(run: str) -> list[str]:
    """Of all processes of a run and of its next attempts, as they were before they had a nonce."""
    roles = [make("node1") for make in (str, control.guardian_of, control.keeper_of)]
    hashes = [hashlib.sha256(role.encode()).hexdigest()[:16] for role in roles]
    runs = [os.path.basename(run) + end for end in ("", "-r02", "-r03")]
    return [f"\0ipexctl-run/{os.getuid()}/{one}/{short}" for one in runs for short in hashes]


@AS_ROOT
def test_another_account_that_takes_all_names_it_can_foretell_changes_nothing(run: str) -> None:
    names = names_that_can_be_foretold(run)

    def take_names(go_on: Callable[[], None]) -> None:
        taken = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in names]
        for listener, name in zip(taken, names, strict=True):
            listener.bind(name)
            listener.listen(1)
        go_on()
        signal.pause()

    with other_account(work=take_names):
        control.serve_control_socket(run, "node1", lambda m: {"alive": m}, lambda link: None)
        guardian = control.open_control_socket(run, control.guardian_of("node1"))
        assert control.is_alive(run, "node1")
        assert control.is_alive(run, control.guardian_of("node1"))
        assert not control.is_alive(run, control.keeper_of("node1"))
        assert control.ask_supervisor(run, "node1", {"stop": "me"}) == {"alive": {"stop": "me"}}
        guardian.close()
        assert not control.is_alive(run, control.guardian_of("node1"))


@AS_ROOT
@pytest.mark.parametrize("answers", [True, False])
def test_the_name_of_a_dead_supervisor_shows_no_life_in_another_accounts_hands(
    run: str, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.3)
    child = os.fork()
    if child == 0:
        listener = control.open_control_socket(run, "node1")
        signal.alarm(60)
        signal.pause()
        listener.close()
    try:
        while not control.is_alive(run, "node1"):
            time.sleep(0.01)
        name = address_of(run)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)

    def take_name(go_on: Callable[[], None]) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(name)
        listener.listen(64 if answers else 0)
        links = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(4)]
        for link in [] if answers else links:  # whoever connects now would have to wait
            link.setblocking(False)
            link.connect_ex(name)
        go_on()
        while answers:
            link, _ = listener.accept()
            with suppress(OSError):
                link.sendall(b'{"alive": true}\n')
        signal.pause()

    with other_account(work=take_name):
        assert not control.is_alive(run, "node1")
        assert control.ask_supervisor(run, "node1", {"ask": "state"}) is None


@AS_ROOT
def test_a_run_without_a_name_is_refused_and_the_account_that_holds_it_named(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", lambda size: b"\0" * size)  # as if it could be foretold

    name = control.socket_address(run, "0" * 16)

    def take_name(go_on: Callable[[], None]) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(name)
        listener.listen(64)
        go_on()
        signal.pause()

    with other_account(work=take_name):
        with pytest.raises(Failure) as refused:
            control.open_control_socket(run, "node1")
        holder = pwd.getpwuid(OTHER).pw_name
        assert f"account {holder} holds it" in refused.value.what
        assert not control.is_alive(run, "node1")


def test_only_its_own_account_can_read_the_nonce(run: str, asked: list[dict]) -> None:
    path = Path(control.nonce_path(run, "node1"))
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent)] == [0o600, 0o700]
    assert path.read_text().split()[0] == address_of(run).rpartition("/")[2]


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_in_the_place_of_the_nonce_stops_no_question(
    run: str, asked: list[dict], put: Callable[[str], None]
) -> None:
    path = control.nonce_path(run, "node1")
    os.remove(path)
    put(path)
    assert not control.is_alive(run, "node1")
    assert control.ask_supervisor(run, "node1", {"ask": "state"}) is None


@AS_ROOT
def test_a_queue_that_another_user_fills_does_not_make_it_dead(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.3)
    monkeypatch.setattr(control, "BACKLOG", 1)
    listener = control.open_control_socket(run, "node1")
    name = address_of(run)

    def fill(go_on: Callable[[], None]) -> None:
        links = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(4)]
        for link in links:
            link.setblocking(False)
            link.connect_ex(name)
        go_on()
        signal.pause()

    with other_account(work=fill):
        assert control.is_alive(run, "node1")
        assert control.ask_supervisor(run, "node1", {"ask": "state"}) is None
    listener.close()
    assert not control.is_alive(run, "node1")


def test_garbage_and_silence_end_nothing(
    run: str, asked: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.3)
    links = []
    for data in (b"", b"\xff\xfe\n", b"[1]\n", b"{" * 100_000, b"null\n"):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.connect(address_of(run))
        link.sendall(data)
        links.append(link)
    assert control.ask_supervisor(run, "node1", {"ask": "state"}) == {"alive": True}
    for link in links:
        link.close()
    assert asked == [{"ask": "state"}]


def test_a_look_at_processes_is_repeated_where_a_parent_ended_during_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of those that cannot be read (hidepid), the folder is there all the same."""
    looks = [{7: ("X", 0), 8: ("S", 7)}, {8: ("S", 5), 5: ("S", 1)}]
    monkeypatch.setattr(os, "listdir", lambda path: [str(pid) for pid in looks[0]])
    monkeypatch.setattr(rank_wrapper, "stat_of", lambda name: looks[0][int(name)])

    def still_there(path: str) -> bool:
        looks.pop(0)
        return False

    monkeypatch.setattr(os.path, "isdir", still_there)
    assert rank_wrapper.list_processes() == {8: ("S", 5), 5: ("S", 1)}
    looks = [{7: ("X", 0), 8: ("S", 7)}]
    monkeypatch.setattr(os.path, "isdir", lambda path: path == "/proc/7")
    assert rank_wrapper.list_processes() == looks[0]


@AS_ROOT
def test_sockets_of_another_account_that_accept_nothing_hold_up_no_look_at_other_runs(
    run: str, asked: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come first in the table's order; the look may wait once for all of them."""
    monkeypatch.setattr(rank_wrapper, "SUPERVISOR", Path("/proc/self/comm").read_text().strip())
    waits: list[float] = []
    connect = control.connect_with_timeout

    def count(link: socket.socket, address: str, patience: float | None = None) -> None:
        waits.append(patience or 0.0)
        connect(link, address, patience)

    monkeypatch.setattr(control, "connect_with_timeout", count)

    def take_names(go_on: Callable[[], None]) -> None:
        held = []
        for number in range(30):
            name = f"\0ipexctl-run/0/{number:04}/{number:016x}"
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(name)
            listener.listen(0)
            held.append(listener)
            for _ in range(3):
                held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                held[-1].setblocking(False)
                held[-1].connect_ex(name)
        go_on()
        signal.pause()

    with other_account(work=take_names):
        rows = read_other_runs.find_other_runs()
    assert any(row["own"] for row in rows)  # one row for all runs that this process has had
    assert sum(waits) < 2 * read_other_runs.PATIENCE


@AS_ROOT
def test_sockets_of_another_account_that_look_like_runs_hide_no_other_run(
    run: str, asked: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come first in the table's order, are of processes that have a supervisor's name, and of
    more than are counted: our run is found all the same, and few of theirs are looked at."""
    monkeypatch.setattr(rank_wrapper, "SUPERVISOR", Path("/proc/self/comm").read_text().strip())
    monkeypatch.setattr(read_other_runs, "MOST_RUNS", 3)
    measured: list[int] = []
    measure = read_other_runs.measure_run_usage

    def count(pid: int, processes: dict[int, tuple[str, int]]) -> dict:
        measured.append(pid)
        return measure(pid, processes)

    monkeypatch.setattr(read_other_runs, "measure_run_usage", count)

    def take_names(go_on: Callable[[], None]) -> None:
        parent = os.getpid()
        if all(os.fork() for _ in range(5)):
            held = []
            for other in range(30):
                held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                held[-1].bind(f"\0ipexctl-run/0/0000/{other:016x}")
                held[-1].listen(9)
            go_on()
            signal.pause()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"\0ipexctl-run/0/0001-{os.getpid()}/{os.getpid():016x}")
        listener.listen(9)
        while os.getppid() == parent:
            time.sleep(0.1)

    def listeners() -> list[str]:
        return [name for _, name in read_other_runs.list_supervisor_sockets() if "0001-" in name]

    with other_account(work=take_names):
        while len(listeners()) < 5:
            time.sleep(0.01)
        rows = read_other_runs.find_other_runs()
    assert any(row["own"] for row in rows)
    assert len([row for row in rows if not row["own"]]) <= 3
    assert len([pid for pid in measured if pid != os.getpid()]) <= 3


@AS_ROOT
@pytest.mark.parametrize("kernel_tells", [True, False])
def test_a_socket_name_with_line_ends_stops_no_look_at_runs_and_at_the_queue(
    run: str, asked: list[dict], monkeypatch: pytest.MonkeyPatch, kernel_tells: bool
) -> None:
    """The kernel writes the names into its table as they are: they can look like other lines."""
    monkeypatch.setattr(rank_wrapper, "SUPERVISOR", Path("/proc/self/comm").read_text().strip())
    forged = f"@ipexctl-run/0/forged/{0:016x}"
    names = [
        f"\0a\n1 2 3 zz 5 6 7 {forged}".encode(), b"\0b\n\n \n\xff", b"\0c\r\x85 x\x0b",
        f"\0d\n0: 00000002 00000000 00010000 0001 01 77 {forged}".encode(),
    ]  # fmt: skip

    def take_names(go_on: Callable[[], None]) -> None:
        held = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in names]
        for listener, name in zip(held, names, strict=True):
            listener.bind(name)
        go_on()
        signal.pause()

    def refuse(asked: int, body: bytes) -> Iterator[bytes]:
        raise OSError(2, "an older kernel")

    if not kernel_tells:
        monkeypatch.setattr(socket_table, "list_sockets", refuse)
    queue = core_queue.CoreQueue("run-1", 10.0, [50_000 + os.getpid() % 9000])
    try:
        with other_account(work=take_names):
            rows = read_other_runs.find_other_runs()
            place = queue.look()
    finally:
        queue.close()
    assert any(row["own"] for row in rows)
    assert not [row for row in rows if row["run"] == "forged"]
    # other tests have tickets here, too, such as run-00001
    assert [one for one in place.before if not re.fullmatch(r"run-\d+", one.run)] == []


def test_of_long_words_of_a_process_only_the_first_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def read(fd: int, size: int) -> bytes:
        data = os_read(fd, size)
        if threading.get_ident() == own:
            sizes.append(len(data))
        return data

    own = threading.get_ident()  # pytest's workers read in another thread
    words = [sys.executable, "-c", "input()", *["x" * 100_000] * 10]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        words_of = f"/proc/{process.pid}/cmdline"
        assert wait_until(lambda: "input()" in tolerant_reads.read_text(words_of), 60, 0.01)
        os_read = os.read
        monkeypatch.setattr(os, "read", read)
        assert not read_other_runs.is_wrapper(process.pid)
        assert tolerant_reads.read_text(words_of).count("x" * 100_000) == 10
        monkeypatch.undo()
    assert sizes[0] == 4096 and sum(sizes[1:]) > 1_000_000


def test_the_memory_of_a_run_includes_what_its_guardian_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "data = bytearray(50 << 20); print(len(data), flush=True); input()"
    started = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for words in (["cat"], [sys.executable, "-c", text])
    ]
    try:
        supervisor, other = started
        assert other.stdout is not None and other.stdout.readline()
        table = {child.pid: ("S", os.getpid()) for child in started}
        assert read_other_runs.measure_run_usage(supervisor.pid, table)["memory"] < 50 << 20
        own = Path("/proc/self/comm").read_text().strip()
        monkeypatch.setattr(rank_wrapper, "GUARDIAN", own)
        assert read_other_runs.measure_run_usage(supervisor.pid, table)["memory"] > 50 << 20
    finally:
        for child in started:
            child.communicate(timeout=60)
