"""`attach`: a run is watched again, from where its journal and its logs are."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ipexctl.common import run_events
from ipexctl.common.journal_records import FactNoted, PartEnded
from ipexctl.common.watch_orders import Shown
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.remote.run import control, run_watch
from ipexctl.remote.run_files import journal
from tests.hub.test_detach_local import goes_on, on_a_terminal, read_until
from tests.run.test_ps_local import LONG, Here
from tests.run.test_ps_local import here as here  # noqa: PLC0414  a fixture


def detached(here: Here, *words: str) -> str:
    done = here.call("run", "-d", "-n", "2", "--force", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def attached(here: Here, *words: str) -> subprocess.Popen[str]:
    run = subprocess.Popen(
        here.argv("attach", *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, cwd=here.code, env=here.env,
    )  # fmt: skip
    here.started.append(run)
    return run


def steps(text: str, rank: int) -> list[str]:
    mine = (line.split(" | ") for line in text.splitlines() if f" r0{rank} | " in line)
    return [words[1] for words in mine]


def test_it_shows_every_line_once_then_the_summary_and_exits_as_the_run(here: Here) -> None:
    run_id = detached(here, "train.py", "40", "3")
    time.sleep(0.5)
    first, second = attached(here, run_id), attached(here, "@last", "--ui", "plain")
    for run in (first, second):
        said, _ = run.communicate(timeout=60)
        assert run.returncode == 3, said
        assert "exit code 3" in said
        for rank in (0, 1):
            assert steps(said, rank) == [f"step {i}" for i in range(40)]
    again = here.call("attach", run_id)
    assert again.returncode == 3 and f"{run_id} has ended" in again.stderr
    assert steps(again.stdout + again.stderr, 0) == [f"step {i}" for i in range(40)]


def test_its_events_are_those_of_the_command_that_started_the_run(here: Here) -> None:
    """But for what a start alone has: notes of the preflight, and where results are kept."""
    run = here.start("--ui", "json", "train.py", "20", "3")
    watching = attached(here, "@last", "--json")
    texts = [run.communicate(timeout=60)[0], watching.communicate(timeout=60)[0]]
    whole, again = ([json.loads(x) for x in t.splitlines() if x.startswith("{")] for t in texts)
    ours = {(e["rank"], e["text"]) for e in whole if e["event"] == "line"}
    lines = [(e["rank"], e["text"]) for e in again if e["event"] == "line"]
    assert len(lines) == len(set(lines)) == 40
    assert ours <= set(lines)  # two of them were read by `start`
    results = [next(e for e in events if e["event"] == "result") for events in (whole, again)]
    same = ("run_id", "exit_code", "ended_by", "cause", "first", "tail", "victims")
    assert [{k: r[k] for k in same} for r in results[:1]] == [
        {k: r[k] for k in same} for r in results[1:]
    ]
    assert (run.returncode, watching.returncode) == (3, 3)


@pytest.mark.parametrize(("number", "state"), [
    (signal.SIGINT, "stopped"), (signal.SIGTERM, "running"), (signal.SIGQUIT, "running"),
])  # fmt: skip
def test_ctrl_c_stops_the_run_and_all_else_leaves_it(
    here: Here, number: signal.Signals, state: str
) -> None:
    run_id = detached(here, *LONG)
    run = attached(here, run_id)
    assert run.stdout
    while "step 3" not in (line := run.stdout.readline()):
        assert line
    run.send_signal(number)
    run.communicate(timeout=30)
    (row,) = here.listed("-a")
    assert row["state"] == state
    assert run.returncode == (130 if state == "stopped" else 0)


def test_a_closed_pipe_leaves_the_run(here: Here) -> None:
    run = attached(here, detached(here, *LONG))
    assert run.stdout
    run.stdout.readline()
    run.stdout.close()
    run.wait(30)
    assert goes_on(here)


def agents_of(pid: int) -> list[int]:
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def test_a_connection_that_ends_is_made_again_and_no_line_is_lost(here: Here) -> None:
    run, terminal = on_a_terminal(here, "train.py", "50", "3")
    said = b""
    for _ in range(3):
        (agent,) = agents_of(run.pid)
        os.kill(agent, signal.SIGKILL)
        said += read_until(terminal, b"step ")
        time.sleep(1.0)
    said += read_until(terminal, b"exited with code 3")
    assert run.wait(30) == 3
    text = said.decode().replace("\r", "")
    numbers = [[int(w.split()[1]) for w in steps(text, rank)] for rank in (0, 1)]
    for mine in numbers:  # what was read before the first kill is not in `said`
        assert mine == list(range(mine[0], 50))


# --- what was read before is not read again ------------------------------------------------------


class Read:
    """What viewers of one run have taken together; each says where the one before it was cut."""

    def __init__(self) -> None:
        self.facts: list[run_events.Fact] = []
        self.output: dict[int, bytes] = {}
        self.at = 0

    def watch(self, agent: Agent, asked: dict, most: int) -> bool:
        """Until the end of the run, or after so many frames. Was it the end?"""
        logs = [[rank, len(data)] for rank, data in self.output.items()]
        number = agent.start("run.run_watch.attach", {**asked, "at": self.at, "logs": logs})
        for frame in agent.frames(timeout=20.0):
            header = frame.header
            if header["id"] != number:
                continue
            if "done" in header:
                return True
            assert "event" in header, header
            fact = run_events.Fact.read(header)
            event = fact.event
            if isinstance(event, run_events.LogPart) and isinstance(event.key, int):
                self.output[event.key] = self.output.get(event.key, b"") + frame.body
                agent.feed(number, Shown(len(frame.body)).document())
            elif fact.at:
                self.at = fact.at
                self.facts.append(fact)
            most -= 1
            if not most:
                return False
        raise AssertionError("the agent ended before the run")


CHATTY = (
    "import os, random, sys, time\n"
    "turn = random.Random(os.environ['RANK'])\n"
    "while not os.path.exists(sys.argv[1]):\n"
    "    print('x' * turn.choice([0, 3, 80, 3000]), flush=True); time.sleep(0.003)\n"
    "sys.exit(int(os.environ['RANK']))\n"
)


@pytest.mark.parametrize("cuts", [
    25, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
])  # fmt: skip
def test_a_viewer_that_is_cut_at_any_place_goes_on_there(here: Here, cuts: int) -> None:
    (here.code / "chat.py").write_text(CHATTY)
    enough = here.code / "enough"
    run_id = detached(here, "chat.py", str(enough))
    root = str(Path(here.env["HOME"]) / ".ipexctl")
    asked = {
        "root": root, "run_id": run_id, "host": "localhost", "lease": 30, "window": 20000,
        "facts": True,
    }  # fmt: skip
    random.seed(cuts)
    read = Read()
    for number in range(cuts + 1):
        if number == cuts:
            enough.touch()
        agent = start_host_agent(LocalTransport(), Host("localhost"), timeout=20.0)
        ended = read.watch(agent, asked, random.randint(1, 15) if number < cuts else 0)
        agent.close()
        assert ended == (number == cuts)
    whole = Read()
    agent = start_host_agent(LocalTransport(), Host("localhost"), timeout=20.0)
    assert whole.watch(agent, asked, 0)
    agent.close()
    assert read.facts == whole.facts
    of_ranks = (run_events.RankStarted, run_events.RankExited)
    rest = [type(f.event) for f in whole.facts if not isinstance(f.event, of_ranks)]
    assert rest == [run_events.Begun, run_events.Over]
    for rank in (0, 1):
        log = Path(root, "runs", run_id, "logs", f"rank0000{rank}.log").read_bytes()
        assert read.output[rank] == whole.output[rank] == log


class Heard:
    """The agent's side of one call: what it sends, and orders that never come."""

    def __init__(self) -> None:
        self.events: list[type[run_events.Event]] = []
        self.agent = SimpleNamespace(at_end=[], heard=None)

    def emit(self, event: dict[str, Any], body: bytes = b"") -> None:
        self.events.append(type(run_events.Fact.read(event).event))

    def recv(self) -> None:
        return None


@pytest.mark.parametrize("sent", [b"", b"\0\0\0\x09\0\0\0\0{}"], ids=["nothing", "half a frame"])
def test_a_supervisor_that_ends_with_our_words_unread_has_ended_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """The kernel resets the connection: not a bug of the agent, as the journal has the rest."""
    root = tmp_path / "root"
    (root / "runs/r123").mkdir(parents=True)
    kept = journal.create_journal(str(root / "runs/r123"), "a")
    kept.add(FactNoted(run_events.Fact(run_events.Begun())))
    kept.add(PartEnded("ended", 0))
    ours, theirs = socket.socketpair()
    ours.sendall(b"unread")
    theirs.sendall(sent)
    theirs.close()
    monkeypatch.setattr(control, "open_watch_socket", lambda run_id, host: ours)
    asked = {
        "root": str(root), "run_id": "r123", "host": "a", "lease": 30.0, "window": 1000,
        "facts": True, "at": 0, "logs": [],
    }  # fmt: skip
    call = Heard()
    with ours:
        last = run_watch.op_attach(call, **asked)
    assert (last.survivors, last.killed) == (0, "")
    assert call.events == [run_events.Begun, run_events.Swept]
