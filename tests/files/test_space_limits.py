"""What stays on a host after many runs of a project: real agents on this machine, one per run."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from ipexctl.common.files import open_atomic
from ipexctl.common.journal_records import RUN_FORMAT, RunBegan
from ipexctl.common.removal_answers import HostPruned
from ipexctl.common.run_about import RunAbout
from ipexctl.data import data
from ipexctl.inventory.inventory import Host
from ipexctl.local import settings
from ipexctl.local.settings_file import parse_settings
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.target import Target
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.project.send_project import Project, Snapshot, answer_yes, read_project
from ipexctl.remote.remove import prune_rules
from ipexctl.remote.run_files import journal, queued_runs
from ipexctl.remove.prune import prune_cache
from ipexctl.remove.prune_limits import (
    Amount,
    PruneLimits,
    add_amounts,
    describe_amounts,
    read_limits,
)
from ipexctl.terminal.progress import HostProgress
from tests.cli import ipexctl
from tests.made import start_order
from tests.refused import refused

NOBODY = {"XDG_CACHE_HOME": "/dev/null/none", "XDG_CONFIG_HOME": "/dev/null/none"}
OP = "remove.prune_rules.prune"
LARGE = 2_000_000


def fresh_agent() -> Agent:
    return start_host_agent(LocalTransport(), Host("here", local=True))


def project(folder: Path) -> Path:
    """20 MB: most of it in large files, some in many small ones."""
    (folder / "pkg").mkdir(parents=True)
    for i in range(9):
        (folder / f"large{i}").write_bytes(os.urandom(LARGE))
    for i in range(40):
        (folder / "pkg" / f"small{i}.py").write_bytes(os.urandom(50_000))
    (folder / "link").symlink_to("pkg/small1.py")
    return folder


def snapshot(folder: Path) -> Snapshot:
    return read_project(Project(folder), answer_yes, NOBODY)


def used(root: Path) -> int:
    found = {p.lstat().st_ino: p.lstat().st_blocks * 512 for p in root.rglob("*") if p.is_file()}
    return sum(found.values())


def prune(root: Path, *, check: bool = False, **limits: int) -> dict[str, tuple[int, int]]:
    asked = {"root": str(root), "limits": {**PruneLimits().for_host(""), **limits}, "check": check}
    with closing(fresh_agent()) as agent:
        pruned = agent.call(OP, asked).done.read(HostPruned)
    return {row.kind: (row.count, row.bytes) for row in pruned.found}


def run(root: Path, folder: Path, name: str, **written: bytes) -> Path:
    """What a run does on a host: the project, what ranks write; then the limits."""
    with closing(fresh_agent()) as agent:
        snapshot(folder).bring(agent, str(root), name)
        work = root / "runs" / name / "work"
        for path, content in written.items():
            (work / path).write_bytes(content)
        asked = {"root": str(root), "limits": PruneLimits().for_host(""), "check": False}
        agent.call(OP, asked)
    return work


def files(work: Path) -> list[str]:
    return sorted(str(p.relative_to(work)) for p in work.rglob("*") if not p.is_dir())


def test_five_runs_take_twice_the_project_and_keep_what_they_wrote(tmp_path: Path) -> None:
    folder, root = project(tmp_path / "p"), tmp_path / "root"
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    for i in range(5):
        run(root, folder, f"run-{i}", checkpoint=bytes([i]) * 1000, large1=b"changed by the run")
    assert used(root) <= 2 * size + 200_000  # lists of files, what the runs wrote, half blocks
    assert files(root / "runs/run-0/work") == ["checkpoint", "large1"]
    assert (root / "runs/run-0/work/large1").read_bytes() == b"changed by the run"
    assert len(files(root / "runs/run-4/work")) == 51
    assert not (root / "runs/run-0/work/pkg").exists()


def test_files_of_earlier_versions_go_beyond_the_limit(tmp_path: Path) -> None:
    folder, root = project(tmp_path / "p"), tmp_path / "root"
    for i in range(5):
        (folder / "large0").write_bytes(os.urandom(LARGE))
        (folder / "pkg/small0.py").write_bytes(os.urandom(200_000))
        work = run(root, folder, f"run-{i}")
    prune(root, project_mb=20)
    assert (work / "large0").read_bytes() == (folder / "large0").read_bytes()
    blobs = {p.name for p in (root / "blobs/sha256").rglob("*") if p.is_file()}
    assert len(blobs) == 9
    with closing(fresh_agent()) as agent:  # what is left is enough: nothing is sent again
        assert snapshot(folder).bring(agent, str(root), "again").bytes == 0


def test_two_projects_do_not_take_each_others_files(tmp_path: Path) -> None:
    one, two, root = project(tmp_path / "one"), tmp_path / "two", tmp_path / "root"
    two.mkdir()
    (two / "other").write_bytes(os.urandom(LARGE))
    run(root, one, "run-0")
    run(root, two, "run-1")
    with closing(fresh_agent()) as agent:
        assert snapshot(one).bring(agent, str(root), "run-2").bytes == 0
    assert prune(root, project_mb=1)["blobs"][0] >= 1  # the one used last always stays
    with closing(fresh_agent()) as agent:
        assert snapshot(one).bring(agent, str(root), "run-3").bytes == 0
        assert snapshot(two).bring(agent, str(root), "run-4").bytes == LARGE


def test_a_large_data_set_does_not_count_as_a_project(tmp_path: Path) -> None:
    folder, root = project(tmp_path / "p"), tmp_path / "root"
    run(root, folder, "run-0")
    data.push_dataset(Target(), project(tmp_path / "set"), None, HostProgress(), str(root))
    prune(root, project_mb=21)
    with closing(fresh_agent()) as agent:
        assert snapshot(folder).bring(agent, str(root), "run-1").bytes == 0


def aged(folder: Path, days: float) -> None:
    """As if nothing had been written there since."""
    then = time.time() - days * 86400
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (then, then), follow_symlinks=False)


def test_results_go_beyond_the_limit_and_check_removes_nothing(tmp_path: Path) -> None:
    folder, root = project(tmp_path / "p"), tmp_path / "root"
    for i in range(3):
        run(root, folder, f"run-{i}", result=b"1")
    before = sorted(root.rglob("*"))
    assert prune(root, check=True, runs=1, days=0)["runs"][0] == 2
    assert sorted(root.rglob("*")) == before
    assert "runs" not in prune(root)
    assert "runs" not in prune(root, runs=0, days=0)
    assert prune(root, runs=1, days=0)["runs"][0] == 2
    assert os.listdir(root / "runs") == ["run-2"]


def test_by_default_20_runs_stay_and_those_of_the_last_14_days(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    root = tmp_path / "root"
    folders = [root / "runs" / f"run-{i:02}" for i in range(25)]
    with closing(fresh_agent()) as agent:
        for i, folder in enumerate(folders):
            snapshot(tmp_path / "empty").bring(agent, str(root), folder.name)
            (folder / "logs").mkdir()
            (folder / "logs/rank00000.log").write_text("done")
            aged(folder, 60 - i)
    log = folders[1] / "logs/rank00000.log"
    os.utime(log, (time.time() - 13 * 86400,) * 2)  # it began long ago, and ended lately
    assert prune(root)["runs"][0] == 4
    assert sorted(p.name for p in (root / "runs").iterdir()) == [
        "run-01", *(folder.name for folder in folders[5:]),
    ]  # fmt: skip
    os.utime(log, (time.time() - 14.1 * 86400,) * 2)
    assert prune(root)["runs"][0] == 1


def test_an_active_run_is_left_alone(tmp_path: Path) -> None:
    folder, root = project(tmp_path / "p"), tmp_path / "root"
    with closing(fresh_agent()) as agent:
        snapshot(folder).bring(agent, str(root), "active")
        run(root, folder, "run-1")
        assert prune(root, runs=1, days=0, project_mb=1) == {}
        assert len(files(root / "runs/active/work")) == 50
    assert prune(root)["copies"][0] == 1


def test_what_a_killed_sync_left_goes_with_the_next_command(tmp_path: Path) -> None:
    folder, root = project(tmp_path / "p"), tmp_path / "root"
    left = root / "runs/killed" / f"work.{'0a' * 8}"
    with closing(fresh_agent()) as agent:
        snapshot(folder).bring(agent, str(root), "killed")
        (left / "pkg").mkdir(parents=True)
        (left / "pkg/large").write_bytes(b"x" * LARGE)
        (root / "runs/killed" / f"work.{'0b' * 8}").symlink_to(folder)
        (root / "runs/killed/work.of-a-rank").write_text("stays")
        run(root, folder, "run-1")
        assert left.exists()  # its agent lives
    run(root, folder, "run-2")
    assert not left.exists()
    assert len(list(folder.iterdir())) == 11
    assert (root / "runs/killed/work.of-a-rank").exists()
    assert (root / "runs/killed/work").is_dir()


def test_a_link_that_a_rank_put_in_a_folders_place_is_not_followed(tmp_path: Path) -> None:
    folder, root = project(tmp_path / "p"), tmp_path / "root"
    work = run(root, folder, "run-0")
    mine = tmp_path / "mine"
    (work / "pkg").rename(mine)
    (work / "pkg").symlink_to(mine)
    run(root, folder, "run-1")
    assert len(list(mine.iterdir())) == 40
    assert (work / "pkg").is_symlink()


# --- settings, the controller's cache and the command --------------------------------------------


def test_limits_are_settings_of_the_user_alone(tmp_path: Path) -> None:
    found = parse_settings("[prune]\nruns = 0\nproject_mb = 1\n", "config.toml")
    assert read_limits(found) == PruneLimits(runs=0, project_mb=1)
    assert read_limits({}) == PruneLimits(copies=1, runs=20, days=14)
    (tmp_path / "ipexctl.toml").write_text("[prune]\nruns = 1\n")
    with refused("setting-not-allowed", "prune.runs"):
        settings.load_settings({"XDG_CONFIG_HOME": str(tmp_path / "none")}, tmp_path)


def test_amounts_in_words() -> None:
    assert describe_amounts((Amount("copies", 2, 4_000_000), Amount("cache", 1, 5))) == (
        "2 copies of projects in old runs (4.0 MB), 1 cached file (5 bytes)"
    )


def test_runs_that_are_removed_are_named_and_each_counts_once_on_all_hosts() -> None:
    rows = (("20260101-120000-abcdef", ""), ("20260102-120000-abcdef", "lr-0.1"))
    on_each = (Amount("runs", 2, 1_000_000, rows),)
    assert describe_amounts(add_amounts([on_each, on_each])) == (
        "2 runs with their results (20260101-120000-abcdef, lr-0.1: 2.0 MB)"
    )
    many = tuple((f"2026010{n}-120000-abcdef", f"lr-{n}") for n in range(5))
    assert describe_amounts((Amount("runs", 5, 5, many), Amount("cache", 1, 5))) == (
        "5 runs with their results (lr-0, lr-1, lr-2 and 2 more: 5 bytes), 1 cached file (5 bytes)"
    )


def test_of_the_cache_what_was_used_longest_ago_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "ipexctl/blobs/sha256/aa"
    folder.mkdir(parents=True)
    for i, name in enumerate(("old", "middle", "new")):
        (folder / name).write_bytes(bytes(1000))
        os.utime(folder / name, (1000 + i, 1000 + i))
    (folder / "now").write_bytes(bytes(5000))
    assert prune_cache(7000, check=True) == (Amount("cache", 1, 1000),)
    assert prune_cache(7000, check=False) == (Amount("cache", 1, 1000),)
    assert sorted(os.listdir(folder)) == ["middle", "new", "now"]
    assert prune_cache(10, check=False) == (Amount("cache", 2, 2000),)  # the other one is in use


def test_the_command_shows_what_would_go_and_removes_it(tmp_path: Path) -> None:
    folder, root = project(tmp_path / "p"), tmp_path / "root"
    for i in range(2):
        with closing(fresh_agent()) as agent:
            snapshot(folder).bring(agent, str(root), f"run-{i}", copies=2)
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "c"), "XDG_CONFIG_HOME": str(tmp_path)}
    words = ("prune", "--root", str(root), "--json")
    plan = json.loads(ipexctl(*words, "--check", cwd=tmp_path, env=env).stdout)
    assert (plan["done"], plan["found"][0]["amounts"][0]["kind"]) == (False, "copies")
    assert ipexctl(*words, cwd=tmp_path, env=env).returncode == 2
    done = ipexctl(*words, "-y", cwd=tmp_path, env=env)
    assert (done.returncode, files(root / "runs/run-0/work")) == (0, [])
    again = ipexctl("prune", "--root", str(root), "-y", cwd=tmp_path, env=env)
    assert "nothing to remove" in again.stdout


def ended_run(root: Path, name: str, by: str, days_ago: float) -> None:
    folder = root / "runs" / name
    folder.mkdir(parents=True, mode=0o700)
    (folder / "lock").touch(mode=0o600)
    kept = journal.create_journal(str(folder), "node01")
    kept.add(RunBegan(RUN_FORMAT, RunAbout(name=name, by=by), began=0.0))
    os.close(kept.fd)
    then = time.time() - days_ago * 86400
    for path in (folder / "lock", *(folder / "journals").iterdir()):
        os.utime(path, (then, then))


def test_strict_limits_of_one_person_do_not_remove_the_runs_of_another(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "runs").mkdir(parents=True, mode=0o700)
    (root / ".ipexctl-root").touch()
    for number in range(4):
        for who in ("ann", "bob"):
            ended_run(root, f"{who}-{number}", f"{who}@desk", 40 - number)
    limits = {**PruneLimits(runs=2, days=0).for_host("ann@desk"), "check": False}
    pruning = prune_rules.Pruning(str(root), limits, check=False)
    pruning.prune_runs()
    left = sorted(path.name for path in (root / "runs").iterdir())
    assert left == ["ann-2", "ann-3", "bob-0", "bob-1", "bob-2", "bob-3"]
    assert pruning.runs == [("ann-1", "ann-1"), ("ann-0", "ann-0")]


def test_a_queued_run_stays_also_without_its_keeper(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "runs").mkdir(parents=True, mode=0o700)
    (root / ".ipexctl-root").touch()
    for number in range(3):
        ended_run(root, f"ann-{number}", "ann@desk", 40 - number)
    queued_runs.keep_order(str(root / "runs" / "ann-1"), start_order(host="node01"))
    limits = {**PruneLimits(runs=1, days=0).for_host("ann@desk"), "check": False}
    pruning = prune_rules.Pruning(str(root), limits, check=False)
    pruning.prune_runs()
    assert sorted(path.name for path in (root / "runs").iterdir()) == ["ann-1", "ann-2"]


def test_a_run_whose_keeper_was_killed_while_it_wrote_its_order_is_not_queued(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    path = queued_runs.order_path(str(run), "node01.example")
    if (pid := os.fork()) == 0:
        with open_atomic(path):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    (unfinished,) = run.iterdir()
    assert unfinished.name.startswith("queued.node01.example")
    assert not queued_runs.is_queued(str(run))
    queued_runs.keep_order(str(run), start_order(host="node01.example"))
    assert queued_runs.is_queued(str(run))


def test_runs_of_others_are_removed_by_the_usual_limits(tmp_path: Path) -> None:
    limits = PruneLimits(runs=2, days=0).for_host("ann@desk")
    assert limits["others"] == {"runs": 20, "days": 14}
    assert PruneLimits(runs=50, days=30).for_host("")["others"] == {"runs": 50, "days": 30}
    assert PruneLimits(runs=0).for_host("")["others"]["runs"] == 0  # never
