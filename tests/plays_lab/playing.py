"""A project folder whose plays run on a practice cluster, as its ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ipexctl.lab import Lab
from tests.cli import ipexctl

REPO = Path(__file__).parents[2]
HOSTS = ("node01", "node02", "node03", "node04")
SUDOERS = "/etc/sudoers.d/trainer"


@dataclass(frozen=True)
class Playing:
    lab: Lab
    folder: Path

    def argv(self, text: str, *words: str) -> list[str]:
        """Of a play's text, or of a shipped play's name."""
        if "\n" in text:
            (self.folder / "play.yaml").write_text(text)
            text = "play.yaml"
        reach = ["-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config)]
        return [sys.executable, "-m", "ipexctl", "play", text, *reach, *words]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(REPO), "XDG_STATE_HOME": str(self.folder)}

    def run(self, text: str, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """In this process; in one of its own where that has more than words."""
        if not more:
            argv = self.argv(text, *words)[3:]
            return ipexctl(*argv, cwd=self.folder, env=self.environment)
        return subprocess.run(
            self.argv(text, *words), cwd=self.folder, env=self.environment, check=False, text=True,
            stdin=more.pop("stdin", subprocess.DEVNULL), capture_output=True, timeout=120, **more,
        )  # fmt: skip

    def states(self, text: str, *words: str) -> tuple[int, dict[tuple[int, str], str]]:
        """The exit code, and what --json says of each step on each host."""
        done = self.run(text, "--json", *words)
        assert done.stdout, done.stderr
        steps = json.loads(done.stdout)["plays"][0]["steps"]
        return done.returncode, {(s["step"], s["host"]): s["state"] for s in steps}

    def predicted_and_done(self, text: str, *words: str) -> dict[tuple[int, str], str]:
        """What --check says of each step and host; then the play's changes are within that."""
        before = {host: self.on(host, "cat", "/proc/sys/net/core/somaxconn") for host in HOSTS}
        code, predicted = self.states(text, "--check", *words)
        assert code == 10
        assert before == {h: self.on(h, "cat", "/proc/sys/net/core/somaxconn") for h in HOSTS}
        code, done = self.states(text, *words)
        assert code == 0
        allowed = {
            "ok": {"ok"}, "would change": {"changed"}, "unknown": {"ok", "changed"},
            "skipped": {"skipped"},
        }  # fmt: skip
        wrong = {k: (v, predicted[k]) for k, v in done.items() if v not in allowed[predicted[k]]}
        assert not wrong
        return predicted

    def start(self, text: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(text, *words), cwd=self.folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def on(self, host: str, *command: str) -> str:
        """As root on a host, past sshd."""
        done = self.lab.run_in(host, list(command))
        return done.stdout if isinstance(done.stdout, str) else done.stdout.decode()

    def home(self, host: str) -> Path:
        return Path(self.lab.hosts[host].files)

    def allow_sudo(self, hosts: Sequence[str], *, password: str = "") -> None:
        rule = f"trainer ALL=(root) {'' if password else 'NOPASSWD: '}ALL"
        for host in hosts:
            self.on(host, "sh", "-c", f"echo '{rule}' > {SUDOERS}; chmod 440 {SUDOERS}")
            if password:
                self.on(host, "sh", "-c", f"echo 'trainer:{password}' | chpasswd")


def interrupt(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=30)[0]


def needs_sudo() -> None:
    if not shutil.which("sudo"):
        pytest.skip("sudo is not installed on this machine")
