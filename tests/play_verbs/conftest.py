"""Plays on two practice hosts that have the real torch; see tests/practice_hosts.py."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ipexctl.lab import HostSpec, Lab, LabSpec
from ipexctl.lab.cluster.rung_limits import FLAT
from tests.cli import ipexctl
from tests.practice_hosts import Homes, Installed, LabRoot, start_lab

HOSTS = ("node01", "node02")


@dataclass
class Played:
    code: int
    out: str
    err: str

    @property
    def steps(self) -> dict[str, dict[str, str]]:
        """Title of a step -> host -> what became of it, from --json."""
        found: dict[str, dict[str, str]] = {}
        for step in json.loads(self.out)["plays"][0]["steps"]:
            found.setdefault(step["title"], {})[step["host"]] = step["state"]
        return found


@dataclass
class Player:
    """`ipexctl play` in a folder of its own."""

    lab: Lab
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def file(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name

    def command(self, *words: str) -> Played:
        where = ("-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config))
        asked = (*words, *where, "-l", ",".join(HOSTS))
        done = ipexctl(*asked, cwd=self.folder, env={**os.environ, **self.env})
        return Played(done.returncode, done.stdout, done.stderr)

    def play(self, steps: str, *options: str) -> Played:
        self.file("p.yaml", f"steps:\n{steps}")
        return self.command("play", "p.yaml", *options)

    def states(self, steps: str, *options: str) -> list[Any]:
        """The exit code, and for each step what became of it: of both hosts the same."""
        played = self.play(steps, "--json", *options)
        assert played.out, played.err
        found = [set(hosts.values()) for hosts in played.steps.values()]
        assert all(len(states) == 1 for states in found), played.out
        return [played.code, *(states.pop() for states in found)]


@pytest.fixture(scope="module")
def play_lab(installed: Installed, homes: Homes, lab_root: LabRoot) -> Iterator[Lab]:
    """Hosts of these tests alone: plays change which environments they have."""
    shapes = (HostSpec(),) * 2 if lab_root.rung == FLAT else (HostSpec(), HostSpec(nics=("ens3",)))
    lab = start_lab(LabSpec(name="play-verbs", hosts=shapes), lab_root)
    try:
        with homes.of("intel") as home:
            for host in lab.hosts.values():
                home.lay_into(Path(host.files))
        yield lab
    finally:
        lab.down()


@pytest.fixture
def player(play_lab: Lab, installed: Installed, tmp_path: Path) -> Player:
    shutil.copy(installed.folder / "ipexctl.lock", tmp_path)
    return Player(play_lab, tmp_path)
