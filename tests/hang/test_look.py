"""A look into real processes: each hangs in a way of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

import ipexctl.in_ranks
from ipexctl.common.processes import stat_of
from ipexctl.common.rank_looks import (
    GroupRanks,
    RankConnection,
    RankLook,
    StackFrame,
    WaitSource,
)
from ipexctl.common.waiting import wait_until
from ipexctl.remote.hang import process_state
from ipexctl.remote.hang.look import look_at_ranks
from ipexctl.run.hang.diagnosis import diagnose_run
from ipexctl.run.hang.evidence import looks_of
from ipexctl.run.hang.hang_report import Situation
from tests.processes import interpreter

IN_RANKS = Path(ipexctl.in_ranks.__file__).parent
SITE_TEXT = (IN_RANKS / "rank_site.py").read_text()
SECONDS = 0.25  # of the interval, which needs to be long only where CPU use is looked at

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE_TEXT)
    for name in ("thread_waits.py", "rank_groups.py"):
        (folder / name).write_text((IN_RANKS / name).read_text())
    return folder


@pytest.fixture
def start(site: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a script that prints one line when it is where it hangs."""
    started: list[subprocess.Popen[bytes]] = []

    def run(
        text: str,
        *arguments: str,
        python: str = sys.executable,
        options: Sequence[str] = (),
        waits: bool = True,
    ) -> subprocess.Popen[bytes]:
        script = tmp_path / f"train{len(started)}.py"
        script.write_text(text)
        env = {**os.environ, "PYTHONPATH": str(site)}
        child = subprocess.Popen(
            [python, *options, str(script), *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(child)
        if waits:
            wait_for_line(child)
        return child

    yield run
    for child in started:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def wait_for_line(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    assert child.stdout.readline(), "it has ended"


def wait_for_state(pid: int, states: str) -> None:
    assert wait_until(lambda: stat_of(pid)[1][0] in states, 10)


def look_at(
    site: Path,
    child: subprocess.Popen[bytes],
    seconds: float = SECONDS,
    seen: Callable[[RankLook], bool] = lambda row: True,
) -> RankLook:
    """Where others keep the CPUs busy, it may need a second look until the rank has answered."""
    for _ in range(8):
        (row,) = look_at_ranks(str(site), {5: child.pid}, seconds)
        assert (row.rank, row.pid) == (5, child.pid)
        if seen(row) and (row.stacks != "silent" or row.state in "TD"):
            break
    return row


def hang(text: str) -> str:
    return "import os, sys, time, threading\n" + text


SLEEP = hang('def step():\n    print("here", flush=True)\n    time.sleep(60)\nstep()\n')


def test_a_rank_that_sleeps_is_seen_where_it_sleeps_and_with_the_text_of_the_line(site, start):
    child = start(SLEEP)
    wait_for_state(child.pid, "S")
    row = look_at(site, child)
    assert row.state == "S" and row.stacks == "ok"
    (thread,) = row.threads
    script = child.args[1]
    assert thread.main and not thread.name
    assert thread.frames == (StackFrame(script, 4, "step"), StackFrame(script, 5, "<module>"))
    assert row.source == WaitSource(script, 4, "step", "time.sleep(60)")
    assert not row.waits_in_loop
    assert row.cpu < 0.2
    assert (row.children, row.connections) == ((), ())
    assert (row.collectives, row.collectives_why) == (None, "not asked")
    assert (site / f"{child.pid}.stacks").stat().st_size < 40  # what is read does not pile up


def test_opening_a_fifo_names_its_path(site, start, tmp_path):
    fifo = tmp_path / "no one writes"
    os.mkfifo(fifo)
    child = start(hang('print("here", flush=True)\nopen("no one writes")\n'))
    os.kill(child.pid, signal.SIGKILL)
    child = start(
        hang('os.chdir(sys.argv[1])\nprint("here", flush=True)\nopen("no one writes")\n'),
        str(tmp_path),
    )
    wait_for_state(child.pid, "S")
    row = look_at(site, child)
    if row.syscall:
        assert row.blocked_on.path == str(fifo) and row.blocked_on.what == "pipe"


def test_what_a_finished_call_left_in_memory_is_not_a_path() -> None:
    left = ctypes.create_string_buffer(b"\xd8\x03\x7f and more")
    path = ctypes.create_string_buffer("/data/größe".encode())
    assert process_state.string_at(os.getpid(), ctypes.addressof(left)) == ""
    assert process_state.string_at(os.getpid(), ctypes.addressof(path)) == "/data/größe"


def test_a_busy_loop_uses_a_cpu_and_is_no_waiting_loop(site, start):
    child = start(hang('print("here", flush=True)\nn = 0\nwhile True:\n    n += 1\n'))

    def is_looping(row: RankLook) -> bool:
        return row.main_cpu > 0 and bool(row.source) and row.source.line in (4, 5)

    row = look_at(site, child, 0.5, is_looping)
    assert 0 < row.main_cpu <= row.cpu < 1.2  # as much as others leave it
    assert not row.waits_in_loop and row.source.line in (4, 5)
    assert row.blocked_on is None


def test_a_waiting_loop(site, start):
    child = start(
        hang(
            'print("here", flush=True)\n'
            'while not os.path.exists("/no/such/file"):\n    time.sleep(0.001)\n'
        )
    )
    # a look between two pauses sees none
    assert wait_until(lambda: look_at(site, child).waits_in_loop, 60, 0.1)


def test_a_stopped_rank_gets_no_signal(site, start):
    child = start(SLEEP)
    os.kill(child.pid, signal.SIGSTOP)
    wait_for_state(child.pid, "T")
    row = look_at(site, child)
    assert (row.state, row.stacks, row.threads) == ("T", "silent", ())
    assert row.collectives_why in ("silent", "not asked")
    assert pending(child.pid) == 0
    os.kill(child.pid, signal.SIGCONT)
    wait_for_state(child.pid, "S")
    assert look_at(site, child).stacks == "ok"


def pending(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    words = [line.split()[1] for line in text.splitlines() if line.startswith(("SigP", "ShdP"))]
    return sum(int(word, 16) for word in words)


MASK = "signal.pthread_sigmask(signal.SIG_BLOCK, [62])"
IGNORE = "signal.signal(62, signal.SIG_IGN)"


@pytest.mark.parametrize("how", [MASK, IGNORE])
def test_a_rank_that_blocks_or_ignores_the_signal_is_not_asked(site, start, how):
    child = start(hang(f"import signal\n{how}\n") + SLEEP)
    row = look_at(site, child)
    assert (row.stacks, row.threads) == ("blocked", ())
    assert pending(child.pid) == 0


@pytest.mark.parametrize("options", [["-I"], ["-S"]])
def test_a_python_without_our_site_survives(site, start, options):
    child = start(SLEEP, options=options)
    row = look_at(site, child)
    assert (row.stacks, row.threads) == ("none", ())
    assert child.poll() is None


def test_a_rank_that_closed_our_file_keeps_its_own_clean(site, start, tmp_path):
    """Its checkpoint has the number by now under which faulthandler would write."""
    child = start(
        hang("os.closerange(3, 100)\nfiles = [open(sys.argv[1], 'ab') for _ in range(10)]\n")
        + SLEEP,
        str(tmp_path / "checkpoint"),
    )
    assert look_at(site, child).stacks == "none"
    assert child.poll() is None and not (tmp_path / "checkpoint").read_bytes()


def test_without_a_site_there_are_no_stacks(start):
    child = start(SLEEP)
    (row,) = look_at_ranks(None, {0: child.pid}, 0.05)
    assert (row.stacks, row.collectives_why, row.state) == ("none", "not asked", "S")


def test_a_rank_that_has_ended(site):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    row = look_at(site, child)
    assert (row.state, row.stacks, row.cpu) == ("X", "none", 0.0)


def test_c_code_that_holds_the_gil_is_seen(site, start):
    child = start(
        hang(
            "import ctypes\n"
            "c, (a, b) = ctypes.PyDLL(None), os.pipe()\n"
            'print("here", flush=True)\n'
            "c.read(a, ctypes.create_string_buffer(1), 1)\n"
        )
    )
    wait_for_state(child.pid, "S")
    row = look_at(site, child)
    assert row.stacks == "ok" and row.source.text.startswith("c.read(")
    assert child.poll() is None  # the kernel goes on with the read


UNINTERRUPTIBLE = """
import ctypes
def copy():
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    if ctypes.PyDLL(None).syscall(number, 0x4000 | 17, 0, 0, 0, 0) == 0:  # CLONE_VFORK
        time.sleep(60)
        os._exit(0)
"""


def test_a_main_thread_in_state_d_keeps_no_one_waiting(site, start):
    child = start(hang(UNINTERRUPTIBLE + 'print("here", flush=True)\ncopy()\n'))
    wait_for_state(child.pid, "D")
    began = time.monotonic()
    row = look_at(site, child)
    assert time.monotonic() - began < SECONDS + 1.0
    assert (row.state, row.stacks, row.threads) == ("D", "silent", ())
    assert pending(child.pid)
    look_at(site, child)
    (copy,) = row.children
    os.kill(copy.pid, signal.SIGKILL)
    wait_for_state(child.pid, "Z")
    answers = (site / f"{child.pid}.stacks").read_text()
    assert answers.count("Current thread") == 1  # asked twice, it got one signal


def test_another_thread_answers_for_a_main_thread_in_state_d(site, start):
    other = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    child = start(hang(UNINTERRUPTIBLE + other + 'print("here", flush=True)\ncopy()\n'))
    wait_for_state(child.pid, "D")
    row = look_at(site, child)
    assert (row.state, row.stacks) == ("D", "ok")
    assert row.threads[0].main and row.threads[0].frames[0].function == "copy"


WORKER = """
def work():
    time.sleep(60)
child = os.fork()
if child == 0:
    work()
"""


def test_a_forked_worker_answers_too_and_a_dead_one_is_counted(site, start):
    child = start(
        hang(
            WORKER + "dead = os.fork()\nif dead == 0:\n    os._exit(3)\n"
            "os.waitid(os.P_PID, dead, os.WEXITED | os.WNOWAIT)\n"
            f"while not os.path.exists(os.path.join({str(site)!r}, '%d.stacks' % child)):\n"
            "    time.sleep(0.01)\n"
            "time.sleep(0.2)\n"
        )
        + SLEEP
    )
    row = look_at(site, child)
    dead, worker = row.children
    assert (dead.exited, dead.state, dead.threads) == (True, "Z", ())
    assert dead.ended == "exit code 3"
    assert not worker.exited and worker.threads[0].frames[0].function == "work" and worker.name
    assert row.threads[0].frames[0].function == "step"


def test_the_cpu_time_of_a_child_that_ended_meanwhile_is_not_lost(site, start):
    child = start(
        hang(
            'print("here", flush=True)\n'
            "while True:\n"
            "    if os.fork() == 0:\n"
            "        end = time.process_time() + 0.05\n"
            "        while time.process_time() < end:\n            pass\n"
            "        os._exit(0)\n"
            "    os.wait()\n"
        )
    )
    row = look_at(site, child, 0.6, lambda row: row.cpu > 2 * row.main_cpu)
    assert row.cpu > 2 * row.main_cpu


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.mark.parametrize("wait", ["s.recv(1)", "s.settimeout(60); s.recv(1)", "poll.poll()"])
def test_a_socket_that_waits_for_its_peer(site, start, server, wait):
    port = server.getsockname()[1]
    child = start(
        hang(
            "import socket, select\n"
            f"s = socket.create_connection(('127.0.0.1', {port}))\n"
            "s.send(b'12345')\n"
            "poll = select.epoll()\npoll.register(s, select.EPOLLIN)\n"
            f'print("here", flush=True)\n{wait}\n'
        )
    )
    wait_for_state(child.pid, "S")
    row = look_at(site, child)
    (link,) = row.connections
    assert link == RankConnection(link.here, f"127.0.0.1:{port}")
    if row.syscall:
        assert row.blocked_on.peer == f"127.0.0.1:{port}"
        assert row.blocked_on.what == ("socket" if wait == "s.recv(1)" else "poll")


def test_what_a_peer_does_not_read_is_in_the_queue(site, start, server):
    port = server.getsockname()[1]
    child = start(
        hang(
            f"import socket\ns = socket.create_connection(('127.0.0.1', {port}))\n"
            "s.setblocking(False)\n"
            "try:\n    while True:\n        s.send(bytes(1 << 20))\n"
            "except BlockingIOError:\n    pass\n"
        )
        + SLEEP
    )
    (link,) = look_at(site, child).connections
    assert link.unsent > 0 and link.unread == 0


def test_ranks_are_looked_at_side_by_side(site, start):
    children = [start(SLEEP) for _ in range(4)]
    os.kill(children[3].pid, signal.SIGSTOP)
    wait_for_state(children[3].pid, "T")
    began = time.monotonic()
    rows = look_at_ranks(
        str(site), {rank: child.pid for rank, child in enumerate(children)}, SECONDS
    )
    assert time.monotonic() - began < SECONDS + 1.0
    assert [row.stacks for row in rows] == ["ok", "ok", "ok", "silent"]


@pytest.mark.parametrize("minor", [6, 8, 12, 13])
def test_pythons_of_ranks(site, start, minor):
    child = start(SLEEP, python=interpreter(minor))
    row = look_at(site, child)
    assert row.stacks == "ok"
    assert row.source == WaitSource(child.args[1], 4, "step", "time.sleep(60)")


# --- torch ---------------------------------------------------------------------------------------

GLOO = """
import torch, torch.distributed as dist
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
dist.new_group([0, 1], group_desc="tp")
x = torch.ones(1024)
for _ in range(8):
    dist.all_reduce(x)
print("here", flush=True)
if rank == 1:
    time.sleep(60)
dist.all_reduce(x)
"""


def torch_python() -> str:
    """That of this test, or one that is named."""
    if find_spec("torch"):
        return sys.executable
    named = os.environ.get("IPEXCTL_TORCH_PYTHON")
    return named or pytest.skip(
        "no torch here, and IPEXCTL_TORCH_PYTHON names no Python that has it"
    )


def test_gloo_waits_for_a_rank_that_does_not_come(site, start, tmp_path):
    python, store = torch_python(), str(tmp_path / "store")
    ranks = [start(hang(GLOO), str(n), store, python=python, waits=False) for n in (0, 1)]
    for rank in ranks:
        wait_for_line(rank)
    first, second = ranks
    wait_for_state(first.pid, "S")
    time.sleep(0.1)
    waits, sleeps = look_at_ranks(str(site), {0: first.pid, 1: second.pid}, 0.5)
    assert waits.collectives_why == sleeps.collectives_why == ""
    assert waits.collectives is not None
    last = waits.calls[-1]
    assert (last.seq, last.op, last.done) == (9, "all_reduce", False)
    assert (last.sizes, last.dtypes) == (((1024,),), ("Float",))
    assert len(waits.calls) == 6
    assert sleeps.calls[-1].seq == 8
    assert all(call.done for call in sleeps.calls)
    groups = waits.collectives.groups
    assert groups[last.group] == GroupRanks("default_pg", (0, 1))
    assert GroupRanks("tp", (0, 1)) in groups.values()
    assert waits.source.text == "dist.all_reduce(x)"
    assert waits.threads[0].main and len(waits.threads) == 1
    assert waits.connections


KEY = """
import torch, torch.distributed as dist
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
dist.all_reduce(torch.ones(8))
kv_store = dist.distributed_c10d._get_default_store()
print("here", flush=True)
kv_store.wait(["never-set"])
"""


def test_a_key_of_a_real_store_that_no_rank_sets_is_named_in_both_ranks(site, start):
    python = torch_python()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        master = f"127.0.0.1:{free.getsockname()[1]}"
    ranks = [
        start(hang(KEY), str(n), f"tcp://{master}", python=python, waits=False) for n in (0, 1)
    ]
    for rank in ranks:
        wait_for_line(rank)
        wait_for_state(rank.pid, "S")
    rows = look_at_ranks(str(site), {n: rank.pid for n, rank in enumerate(ranks)}, 0.5)
    looks = looks_of("node01", rows)
    hosts = dict.fromkeys((0, 1), "node01")
    diagnosis = diagnose_run(Situation(2, hosts, master, looks, quiet=60.0))
    assert diagnosis.kind.name == "store-key"
    assert "for the key 'never-set' of the store, which no rank has set" in diagnosis.headline
    assert [suspect.rank for suspect in diagnosis.suspects] == [0, 1]
