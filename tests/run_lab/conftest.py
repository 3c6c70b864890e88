"""Runs as a user starts them: the real command, on hosts of a lab that have an environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ipexctl.lab.cluster.rung_limits import FULL
from tests.cli import Ended, ipexctl

REPO = Path(__file__).parents[2]


@dataclass
class Started:
    """A run in the background; its events as they came."""

    process: subprocess.Popen
    events: list[dict] = field(default_factory=list)

    def until(self, *, seconds: float = 90, **wanted) -> dict:
        """The first event, from the one read last on, that has these fields."""
        deadline = time.monotonic() + seconds
        for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(event)
            if all(event.get(k) == v for k, v in wanted.items()):
                return event
            assert time.monotonic() < deadline, f"no {wanted} in time"
        err = self.process.stderr.read()
        raise AssertionError(f"the run ended without {wanted}:\n{err}\n{self.events[-5:]}")

    def lines(self, rank: int | None = None) -> list[str]:
        return [
            e["text"]
            for e in self.events
            if e["event"] == "line" and (rank is None or e["rank"] == rank)
        ]

    @property
    def run_id(self) -> str:
        return next(e["run_id"] for e in self.events if e["event"] == "plan")

    def finish(self, *, seconds: float = 120) -> dict:
        result = self.until(event="result", seconds=seconds)
        assert self.process.wait(30) == result["exit_code"]
        assert self.process.stderr.read() == ""
        return result


def _pid_namespace(process: str) -> str:
    return os.readlink(f"{process}/ns/pid") if os.path.exists(process) else ""


class Runner:
    root: tuple[str, ...] = ()  # where ipexctl's files are on the hosts, if elsewhere

    def __init__(self, lab, folder: Path) -> None:
        self.lab = lab
        self.hostfile = lab.hostfile
        self.folder = folder
        self.started: list[subprocess.Popen] = []

    def script(self, text: str, name: str = "script.py") -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def argv(self, *options: str) -> list[str]:
        lab = ["-f", str(self.hostfile), "-F", str(self.lab.ssh_config), *self.root]
        return [sys.executable, "-m", "ipexctl", "run", *lab, *options]

    def environment(self, **kwargs: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(REPO), **kwargs}

    def start(self, *options: str) -> Started:
        process = subprocess.Popen(
            self.argv("--json", *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment(),
        )
        self.started.append(process)
        return Started(process)

    def train(self, *options: str) -> tuple[Started, dict]:
        run = self.start(*options)
        result = run.finish()
        assert (result["exit_code"], result["ended_by"]) == (0, "ranks"), run.lines()
        return run, result

    def plain(self, *options: str, **kwargs) -> Ended:
        """In this process, which has imported all of it."""
        words = self.argv(*options)[3:]
        return ipexctl(*words, cwd=self.folder, env=self.environment(**kwargs))

    def left(self, run_id: str) -> dict[str, list[str]]:
        """Processes on the hosts that belong to the run, looked up by its mark."""
        if self.lab.rung == FULL:
            return self._left_from_here(f"IPEXCTL_RUN_ID={run_id}".encode())
        look = (
            "for p in /proc/[0-9]*; do "
            f"if tr '\\0' '\\n' <$p/environ 2>/dev/null | grep -qx IPEXCTL_RUN_ID={run_id}; "
            "then tr '\\0' ' ' <$p/cmdline; echo; fi; done"
        )
        found = {}
        for name in self.lab.hosts:
            out = self.lab.run_in(name, ["/bin/sh", "-c", look]).stdout
            out = out.decode() if isinstance(out, bytes) else out
            lines = [line for line in out.splitlines() if line.strip()]
            if lines:
                found[name] = lines
        return found

    def _left_from_here(self, mark: bytes) -> dict[str, list[str]]:
        """Root of this machine sees the processes of all hosts, and starts none to look."""
        hosts = {_pid_namespace(f"/proc/{pid}"): h for h, (pid, _) in self.lab.status().items()}
        found: dict[str, list[str]] = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    host = hosts.get(_pid_namespace(str(process)), "on no host")
                    if words.strip():
                        found.setdefault(host, []).append(words)
        return found

    def gone(self, run_id: str, *, seconds: float) -> dict[str, list[str]]:
        """What is still there after at most that time."""
        deadline = time.monotonic() + seconds
        while (left := self.left(run_id)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left


def errors(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Of a command with --json that could not do its work."""
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["errors"]
    return found


@pytest.fixture
def runner(installed_lab, tmp_path):
    made = Runner(installed_lab, tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
