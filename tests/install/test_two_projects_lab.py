"""Two projects with different locks on the same hosts: each runs in its own environment, and two
installs never leave the hosts mixed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipexctl.lab import Lab, LabSpec
from tests.conftest import MakeLab
from tests.install.conftest import Outcome, Shop, finish, make_wheel, until
from tests.install.over_ssh import HELD, HOLD, current, on, stock

pytestmark = pytest.mark.lab

SCRIPT = "import sys; print(sys.prefix.rpartition('/')[2])\n"


@dataclass
class Team:
    """Projects, and the lab that they share."""

    shop: Shop
    lab: Lab

    def project(self, name: str) -> Path:
        folder = self.shop.folder / name
        folder.mkdir()
        (folder / "train.py").write_text(SCRIPT)
        make_wheel(self.shop.wheels, f"only_{name}", "1.0", {f"only_{name}.py": b""})
        (folder / "needs.txt").write_text(f"only-{name}\n")
        names = list(self.lab.hosts)
        turned = names if name == "alpha" else names[::-1]
        (folder / "hosts").write_text("".join(f"{n}\n" for n in turned))
        return folder

    def start(self, folder: Path, *words: str) -> subprocess.Popen[str]:
        reach = ("-f", "hosts", "--ssh-config", str(self.lab.ssh_config))
        env = {**self.shop.environ(), "XDG_STATE_HOME": str(self.shop.folder / "state")}
        return subprocess.Popen(
            [sys.executable, "-m", "ipexctl", words[0], *reach, *words[1:]], cwd=folder, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def install(self, folder: Path, *words: str) -> subprocess.Popen[str]:
        asked = ("install", "-y", "--mpi", "none", "--stack", "stock", "-r", "needs.txt")
        return self.start(folder, *asked, *words)

    def installed(self, folder: Path) -> str:
        """The key of its environment."""
        done = finish(self.install(folder, "--json"))
        assert done.code == 0, done.err + done.out
        return str(done.document["environment"])

    def run(self, folder: Path) -> subprocess.Popen[str]:
        return self.start(folder, "run", "-n", "3", "--force", "--json", "train.py")

    def currents(self) -> list[str]:
        return [on(self.lab, host, "readlink ~/.ipexctl/current") for host in self.lab.hosts]


def seen(run: Outcome) -> set[str]:
    """The environments that the ranks saw."""
    assert run.code == 0, run.err + run.out
    events = [json.loads(line) for line in run.out.splitlines()]
    found = [e["text"] for e in events if e["event"] == "line"]
    assert len(found) == 3
    return set(found)


@pytest.fixture
def team(shop: Shop, make_lab: MakeLab) -> Iterator[Team]:
    stock(shop)
    yield Team(shop, make_lab(LabSpec.plain(3, name="team")))


def rounds(team: Team, count: int) -> None:
    a, b = team.project("alpha"), team.project("beta")
    keys = {a: team.installed(a), b: team.installed(b)}
    assert keys[a] != keys[b]
    for _ in range(count):
        for folder in (a, b):
            assert seen(finish(team.run(folder))) == {keys[folder]}
        at_once = {folder: team.run(folder) for folder in (a, b)}
        for folder, run in at_once.items():
            assert seen(finish(run)) == {keys[folder]}
    assert team.currents() == [f"envs/{keys[b]}"] * 3


def test_at_once_and_in_turn_each_run_is_in_its_own_environment(team: Team) -> None:
    rounds(team, 2)


@pytest.mark.soak
def test_twenty_runs_each_are_in_their_own_environment(team: Team) -> None:
    rounds(team, 10)


def test_two_installs_in_opposite_orders_of_hosts_leave_no_mixed_fleet(team: Team) -> None:
    """Each works on one host after the other, from opposite ends; the builds are held until both
    have begun."""
    a, b = team.project("alpha"), team.project("beta")
    for host in team.lab.hosts:
        on(team.lab, host, f"touch {HOLD}")
    first = team.install(a, "--json", "--forks", "1")
    until(lambda: any(on(team.lab, h, f"ls {HELD}") for h in team.lab.hosts))
    second = team.install(b, "--forks", "1")
    told = ""
    assert second.stderr is not None
    while "waiting for the install of alpha (" not in told:
        told = second.stderr.readline()
        assert told, "the second install did not wait"
    for host in team.lab.hosts:
        on(team.lab, host, f"rm {HOLD}")
    one = finish(first)
    assert (one.code, one.states) == (0, ["changed"] * 3), one.err
    assert finish(second).code == 0
    assert len(set(team.currents())) == 1
    keys = {folder: team.installed(folder) for folder in (a, b)}
    assert team.currents() == [f"envs/{keys[b]}"] * 3
    for folder in (a, b):
        assert seen(finish(team.run(folder))) == {keys[folder]}


def test_installs_started_together_never_leave_a_mixed_fleet(team: Team) -> None:
    a, b = team.project("alpha"), team.project("beta")
    for _ in range(3):
        both = [team.install(folder, "--json", "--forks", "1") for folder in (a, b)]
        done = [finish(install) for install in both]
        assert [d.code for d in done] == [0, 0], [d.err for d in done]
        assert len(set(team.currents())) == 1
        assert [current(team.lab, host) for host in team.lab.hosts] == ["whole"] * 3
