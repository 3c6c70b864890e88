"""Real processes that hang: what is said of the thread, child or call that they wait for."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import ipexctl.in_ranks
from ipexctl.in_ranks import thread_waits
from ipexctl.remote.hang.look import look_at_ranks
from ipexctl.run.hang.diagnosis import diagnose_run
from ipexctl.run.hang.diagnosis_layout import stack_document, stack_lines
from ipexctl.run.hang.evidence import looks_of
from ipexctl.run.hang.hang_report import Diagnosis, Situation

IN_RANKS = Path(ipexctl.in_ranks.__file__).parent
# A rank answers questions once it has imported torch.distributed; here, a stand-in for it.
HEAD = "import logging, multiprocessing, os, queue, sqlite3, subprocess, sys, time, threading\n"
HEAD += "import torch.distributed.distributed_c10d\n"
HEAD += "from concurrent.futures import ThreadPoolExecutor\n"
HEAD += "fork = multiprocessing.get_context('fork')\n"


@dataclass(frozen=True)
class Case:
    name: str
    script: str
    kind: str
    doing: str
    likely: tuple[str, ...] = ()  # in this order
    absent: str = ""


TWO_LOCKS = """
a, b = threading.Lock(), threading.Lock()
def other():
    with b:
        time.sleep(0.3)
        with a:
            pass
threading.Thread(target=other, name="writer", daemon=True).start()
with a:
    time.sleep(0.3)
    with b:
        pass
"""
CASES = [
    Case(
        "a sqlite lock",
        """
path = sys.argv[1] + "/a.db"
one = sqlite3.connect(path)
one.execute("create table t (a)")
one.execute("begin exclusive")
sqlite3.connect(path, timeout=3600).execute("insert into t values (1)")
""",
        "sleeping",
        "waiting inside sqlite3",
        absent="remove the sleep",
    ),
    Case("a sleep", "time.sleep(3600)", "sleeping", "sleeping"),
    Case(
        "another name of sleep",
        "from time import sleep as nap\nnap(3600)",
        "sleeping",
        "sl",
    ),
    Case(
        "two locks in another order",
        TWO_LOCKS,
        "lock",
        "the lock b",
        ("hread writer holds", "train.py:7 in other", "train.py:9", "lock a", "main thread holds"),
    ),
    Case(
        "two locks, with acquire()",
        TWO_LOCKS.replace("with a:", "if a.acquire():").replace("with b:", "if b.acquire():"),
        "lock",
        "the lock b",
        ("hread writer is at train.py:9",),
        absent="holds",  # a test may be of a lock that could not be taken
    ),
    Case(
        "a lock that is given back while its holder waits",
        """
condition = threading.Condition(threading.Lock())
def waits():
    with condition:
        condition.wait()
def holds():
    condition.acquire()
    time.sleep(3600)
threading.Thread(target=waits, name="waiter", daemon=True).start()
time.sleep(0.2)
threading.Thread(target=holds, name="holder", daemon=True).start()
time.sleep(0.2)
with condition:
    pass
""",
        "lock",
        "the lock condition",
        ("hread holder holds", "train.py:10"),
    ),
    Case(
        "a lock that its own thread holds",
        """
lock = threading.Lock()
def save():
    with lock:
        flush()
def flush():
    with lock:
        pass
save()
""",
        "lock",
        "the lock",
        ("holds it itself", "train.py:7 in save"),
    ),
    Case(
        "a lock that a signal handler takes again",
        """
import signal, threading, time
class Log:
    def __init__(self):
        self.mutex = threading.Lock()
    def write(self, pause):
        with self.mutex:
            time.sleep(pause)
log = Log()
signal.signal(signal.SIGALRM, lambda *_: log.write(0))
signal.setitimer(signal.ITIMER_REAL, 0.3)
log.write(60)
""",
        "lock",
        "the lock self.mutex",
        ("holds it itself", "train.py:10 in write"),
    ),
    Case(
        "a lock whose thread has ended",
        "r = threading.RLock()\nt = threading.Thread(target=r.acquire)\nt.start()\nt.join()\n"
        "with r:\n    pass\n",
        "lock",
        "the lock r",
        ("has ended without releasing",),
    ),
    Case(
        "a pool whose tasks come late",
        """
def tasks():
    yield 1
    os.read(os.pipe()[0], 1)
list(fork.Pool(2).imap(abs, tasks()))
""",
        "lock",
        "a multiprocessing pool",
        ("_handle_tasks", "train.py:7 in tasks", "a pipe"),
        absent="ended",
    ),
    Case(
        "the lock of a log handler",
        """
class Slow(logging.Handler):
    def emit(self, record):
        time.sleep(3600)
logging.getLogger().addHandler(Slow())
threading.Thread(target=logging.error, args=("a",), name="slow", daemon=True).start()
time.sleep(0.2)
logging.error("b")
""",
        "lock",
        "a lock of logging",
        ("hread slow holds", "train.py:7 in emit", "sleeping"),
    ),
    Case(
        "a future",
        """
def load():
    os.read(os.pipe()[0], 1)
ThreadPoolExecutor(1, "load").submit(load).result()
""",
        "lock",
        "future",
        ("hread load_0 computes it", "train.py:6 in load"),
    ),
    Case(
        "the results of a map",
        """
def load(n):
    os.read(os.pipe()[0], 1)
list(ThreadPoolExecutor(1, "load").map(load, [1]))
""",
        "lock",
        "future",
        ("hread load_0 computes it", "train.py:6 in load"),
    ),
    Case(
        "futures as they complete",
        """
from concurrent.futures import as_completed
def load():
    os.read(os.pipe()[0], 1)
list(as_completed([ThreadPoolExecutor(1, "load").submit(load)]))
""",
        "lock",
        "future",
        ("hread load_0 computes it", "train.py:7 in load"),
    ),
    Case(
        "a pool of threads that waits for itself",
        """
pool = ThreadPoolExecutor(1, "load")
def outer():
    return pool.submit(time.time).result()
pool.submit(outer).result()
""",
        "lock",
        "future",
        ("hread load_0 computes it", "train.py:7 in outer", "No thread has begun"),
    ),
    Case(
        "a thread that does not end",
        """
def pump():
    time.sleep(3600)
thread = threading.Thread(target=pump, name="pump", daemon=True)
thread.start()
thread.join()
""",
        "lock",
        "thread pump to end",
        ("hread pump has not ended", "train.py:6 in pump", "sleeping"),
    ),
    Case(
        "a queue that no thread fills",
        "queue.Queue().get()",
        "lock",
        "an item of a queue",
        ("no other Python thread",),
    ),
    Case("a full queue", "q = fork.Queue(1)\nq.put(1)\nq.put(2)", "lock", "is full"),
    Case("an event", "threading.Event().wait()", "lock", "an event", ("no other Python",)),
    Case(
        "a barrier of threads",
        "threading.Barrier(3).wait()",
        "lock",
        "(1 of 3 have arrived)",
    ),
    Case(
        "a semaphore",
        """
slots = threading.Semaphore(1)
def hog():
    with slots:
        time.sleep(3600)
threading.Thread(target=hog, name="hog", daemon=True).start()
time.sleep(0.2)
slots.acquire()
""",
        "lock",
        "a semaphore",
        ("hread hog holds it", "train.py:7 in hog", "sleeping"),
    ),
    Case(
        "tasks of asyncio",
        """
import asyncio
async def fetch():
    await asyncio.Event().wait()
async def both():
    await asyncio.gather(fetch(), fetch())
asyncio.run(both())
""",
        "lock",
        "asyncio",
        ("train.py:7 in fetch (2 tasks)", "train.py:9 in both"),
    ),
    Case(
        "a fork while another thread holds a lock",
        """
lock = threading.Lock()
def hold():
    with lock:
        time.sleep(1)
threading.Thread(target=hold, daemon=True).start()
time.sleep(0.2)
if os.fork() == 0:
    lock.acquire()
os.wait()
""",
        "blocked-io",
        "the child that was forked at train.py:11",
        ("train.py:12", "the lock", "at the fork"),
        absent="command",
    ),
    Case(
        "a program that was started",
        "subprocess.run(['sh', '-c', 'sleep 3600 | cat'])",
        "blocked-io",
        "a subprocess (sh",
        ("(sh",),
        absent="command",
    ),
    Case(
        "the end of a pipe that a program holds",
        "subprocess.Popen(['sleep', '3600'], stdout=subprocess.PIPE).stdout.read()",
        "blocked-io",
        "a pipe",
        ("(sleep", "sleeping"),
    ),
    Case(
        "a stopped child",
        "p = subprocess.Popen(['sleep', '3600'])\np.send_signal(19)\np.wait()",
        "blocked-io",
        "a subprocess (sleep",
        ("kill -CONT", "on node01"),
    ),
    Case(
        "a killed worker process",
        "q = fork.Queue()\nfork.Process(target=lambda: os.kill(os.getpid(), 9)).start()\nq.get()",
        "worker",
        "was killed by signal 9",
        ("memory",),
    ),
    Case(
        "a killed worker of a pool",
        """
def task(n):
    if n == 3:
        os.kill(os.getpid(), 9)
fork.Pool(2).map(task, range(8))
""",
        "worker",
        "worker has ended",
    ),
    Case(
        "a pool's worker that is not done",
        "fork.Pool(2).map(time.sleep, [3600])",
        "lock",
        "a multiprocessing pool",
        ("forked at train.py:5", "sleeping"),
        absent="ended",
    ),
    Case(
        "a module with a telling name that is imported",
        """
os.makedirs(sys.argv[1] + "/site-packages/requests")
with open(sys.argv[1] + "/site-packages/requests/__init__.py", "w") as file:
    file.write("import os\\nos.read(os.pipe()[0], 1)\\n")
sys.path.insert(0, sys.argv[1] + "/site-packages")
import requests
""",
        "blocked-io",
        "a pipe",
        absent="server",
    ),
]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text((IN_RANKS / "rank_site.py").read_text())
    for name in ("thread_waits.py", "rank_groups.py"):
        (folder / name).write_text((IN_RANKS / name).read_text())
    stand_in = tmp_path / "packages" / "torch" / "distributed"
    stand_in.mkdir(parents=True)
    for name in ("__init__.py", "distributed_c10d.py", "../__init__.py"):
        (stand_in / name).touch()
    return folder


@pytest.fixture
def hang(site: Path, tmp_path: Path) -> Iterator[object]:
    started: list[subprocess.Popen[bytes]] = []

    def start(text: str) -> subprocess.Popen[bytes]:
        script = tmp_path / "train.py"
        script.write_text(HEAD + text.removeprefix("\n"))
        paths = os.pathsep.join([str(site), str(tmp_path / "packages")])
        child = subprocess.Popen(
            [sys.executable, str(script), str(tmp_path)],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def seen(site: Path, pid: int) -> Situation:
    looks = looks_of("node01", look_at_ranks(str(site), {0: pid}, 0.2))
    return Situation(1, {0: "node01"}, looks=looks, quiet=60.0)


def is_told(case: Case, found: Diagnosis) -> bool:
    doing = " ".join(suspect.doing for suspect in found.suspects)
    rest = found.likely
    for part in case.likely:
        _, known, rest = rest.partition(part)
        if not known:
            return False
    return found.kind.name == case.kind and case.doing in doing


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_who_is_waited_for(site: Path, hang, case: Case) -> None:
    child = hang(case.script)
    deadline = time.monotonic() + 120  # it may not have got there yet
    while not is_told(case, found := diagnose_run(seen(site, child.pid))):
        assert time.monotonic() < deadline and child.poll() is None, found
        time.sleep(0.2)
    assert not case.absent or case.absent not in found.likely + str(found.suspects)


def test_the_answer_of_a_rank_does_not_count_as_its_computing(site: Path, hang) -> None:
    lines = "".join(f"    a{n} = [{n}, {{'b': {n}}}] if {n} else None\n" for n in range(6000))
    child = hang(f"def long():\n{lines}    time.sleep(600)\nlong()\n")
    deadline, called = time.monotonic() + 300, None
    while called != "time.sleep":  # it may not have got there yet
        assert time.monotonic() < deadline and child.poll() is None
        (row,) = look_at_ranks(str(site), {0: child.pid}, 0.5)
        called = row.wait.call
    assert row.cpu is not None and row.cpu < 0.1


def test_a_call_is_named_only_with_the_line_that_makes_it(site: Path, hang) -> None:
    """The rank goes on between its answers: where its frames are, and what it calls there."""
    calls = {"time.sleep": "time.sleep(0.004)", "select.select": "select([], [], [], 0.004)"}
    loop = "".join(f"    {line}\n" for line in calls.values())
    script = f"from select import select\nwhile True:\n{loop}"
    first = HEAD.count("\n") + 3
    child = hang(script)
    deadline, named = time.monotonic() + 300, list[str]()
    while len(named) < 12 or len(set(named)) < 2:
        assert time.monotonic() < deadline and child.poll() is None, named
        (row,) = look_at_ranks(str(site), {0: child.pid}, 0.05)
        for thread in row.threads[:1]:
            if call := thread.waits.call:
                assert thread.frames[0].line == first + [*calls].index(call), (thread, named)
                named.append(call)


def test_what_is_called_is_named_only_if_it_has_a_name() -> None:
    class Model:
        def __call__(self) -> None:
            raise AssertionError

    names = {"model": Model(), "half": partial(max, 1), "join": "-".join, "sleep": time.sleep}
    frame = SimpleNamespace(f_locals=names, f_globals={})
    called = [thread_waits.called_name(frame, ast.Name(name)) for name in names]
    assert called == ["", "", "join", "time.sleep"]


def test_all_stacks_are_shown_on_request(site: Path, hang) -> None:
    child = hang(TWO_LOCKS)
    deadline = time.monotonic() + 120
    while "other" not in (text := "\n".join(stack_lines(made := seen(site, child.pid)))):
        assert time.monotonic() < deadline, text
    assert "thread writer" in text and "main thread" in text
    document = stack_document(made.looks[0])
    assert [thread["main"] for thread in document["threads"]] == [True, False]
    assert document["threads"][1]["frames"][0][2] == "other"
