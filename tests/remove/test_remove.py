"""`remove --all` on this machine as the only host: the real command and a real agent."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from ipexctl.base.host_outcome import HostResult, HostState
from ipexctl.common.journal_records import RUN_FORMAT, RunBegan
from ipexctl.common.run_about import RunAbout
from ipexctl.local.project_lock import this_person
from ipexctl.remote.run_files import journal, queued_runs
from ipexctl.terminal.confirm import DECLINED
from ipexctl.terminal.recap_lines import folded_lines
from tests.answering_terminal import answering
from tests.cli import ipexctl
from tests.made import start_order

REPO = Path(__file__).parents[2]


def listing(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a folder of the user's own, and something to push."""
    home = tmp_path / "home"
    (home / "set").mkdir(parents=True)
    (home / "set" / "x").write_bytes(b"1")
    return home


def environ(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "IPEXCTL_"))}
    return {**kept, "HOME": str(home), "PYTHONPATH": str(REPO), "TMPDIR": str(home.parent)}


def call(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return ipexctl(*words, cwd=home, env=environ(home))


def remove(home: Path, *words: str, code: int = 0) -> dict:
    done = call(home, "remove", "--all", "--json", *words)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def pushed(home: Path, *words: str) -> None:
    assert call(home, "data", "push", "set", *words).returncode == 0


def typed(home: Path, answers: Sequence[bytes], *words: str) -> subprocess.CompletedProcess[str]:
    with answering(*answers) as terminal:
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", "remove", "--all", *words],
            cwd=home, env=environ(home), stdin=terminal.fd, capture_output=True, text=True,
        )  # fmt: skip


def test_what_was_made_goes_with_the_folders_above_it(home: Path) -> None:
    before = listing(home)
    pushed(home, "--root", f"{home}/a/b/root")
    root = home / "a/b/root"
    plan = remove(home, "--check", "--root", str(root))
    assert (plan["done"], plan["exit_code"], root.is_dir()) == (False, 0, True)
    assert plan["found"][0]["bytes"] > 0
    done = remove(home, "-y", "--root", str(root))
    assert (done["done"], done["hosts"][0]["state"]) == (True, "changed")
    assert [path for path in listing(home) if not path.startswith(".cache")] == before
    again = remove(home, "-y", "--root", str(root))
    assert (again["hosts"][0]["state"], root.exists()) == ("ok", False)


def test_it_says_what_it_is_doing_on_each_host(home: Path) -> None:
    pushed(home)
    (home / "hosts").write_text("a ansible_connection=local\n")
    words = ("remove", "--all", "-f", "hosts", "-y")
    lines = call(home, *words).stderr.splitlines()
    assert lines[:2] == ["a: connecting", "a: measuring"]
    assert lines[2].startswith("a: removing ") and lines[2].endswith("B")
    assert call(home, *words, "--json").stderr == ""
    lines = call(home, "prune", "-f", "hosts", "--check").stderr.splitlines()
    assert lines == ["a: connecting", "a: looking for files to remove"]


@pytest.mark.parametrize("command", [("remove", "--all"), ("prune",)])
def test_a_host_that_fails_is_not_shown_as_at_work(home: Path, command: tuple[str, ...]) -> None:
    (home / "hosts").write_text("a ansible_host=127.0.0.1 ansible_port=1\n")
    done = call(home, *command, "-f", "hosts", "-y")
    assert (done.stderr.splitlines(), done.returncode) == (["a: connecting", "a: failed"], 4)


def test_the_cache_of_torch_compile_stays_and_is_named(home: Path) -> None:
    pushed(home)
    cache = home.parent / "torchinductor_me"
    cache.mkdir()
    (cache / "header").write_bytes(bytes(10_000))
    done = remove(home, "-y")
    said = [note for host in done["hosts"] for note in host["notes"] if str(cache) in note]
    assert len(said) == 1 and said[0].startswith(f"kept: {cache} (")
    assert done["found"][0]["caches_kept"][str(cache)] >= 10_000
    assert (cache / "header").exists() and not (home / ".ipexctl").exists()


def test_a_folder_that_was_there_before_stays_with_its_files(home: Path) -> None:
    root = home / "mine"
    (root / "data" / "own").mkdir(parents=True)
    (root / "notes.txt").write_text("mine")
    before = listing(root)
    untouched = remove(home, "-y", "--root", str(root))
    assert (untouched["hosts"][0]["state"], listing(root)) == ("ok", before)
    assert call(home, "data", "ls", "--root", str(root)).returncode == 0
    (root / "later.txt").write_text("mine")
    done = remove(home, "-y", "--root", str(root))
    assert "data, later.txt, notes.txt" in done["hosts"][0]["detail"]
    assert listing(root) == sorted([*before, "later.txt"])
    (empty := home / "empty").mkdir()
    pushed(home, "--root", str(empty))
    assert (remove(home, "-y", "--root", str(empty))["exit_code"], listing(empty)) == (0, [])


def test_links_are_removed_and_not_followed(home: Path) -> None:
    away = home / "away"
    (away / "target").mkdir(parents=True)
    (away / "target" / "precious").write_text("mine")
    (home / ".ipexctl").symlink_to(away / "target")  # the user keeps it on another disk
    pushed(home)
    (away / "target" / "runs").symlink_to(away)
    (away / "target" / "data" / "set" / "link").symlink_to(home / "set")
    assert remove(home, "-y")["exit_code"] == 0
    assert listing(away) == ["target", "target/precious"]
    assert (home / ".ipexctl").is_symlink()
    assert (home / "set" / "x").read_bytes() == b"1"


def test_read_only_folders_of_a_run_go_as_well(home: Path) -> None:
    pushed(home)
    work = home / ".ipexctl/runs/20260101-000000-abcdef/work"
    work.mkdir(parents=True)
    (work / "x").write_text("1")
    work.chmod(0o500)
    assert remove(home, "-y")["exit_code"] == 0
    assert not (home / ".ipexctl").exists()


def test_while_a_run_is_active_nothing_goes_and_the_run_is_named(home: Path) -> None:
    pushed(home)
    run = home / ".ipexctl/runs/20260101-000000-abcdef"
    run.mkdir(parents=True)
    before = listing(home)
    with open(run / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        done = remove(home, "-y", code=1)
        (used,) = done["found"][0]["in_use"]
        assert run.name in used and used in done["hosts"][0]["notes"]
        assert set(before) <= set(listing(home))
    assert remove(home, "-y")["exit_code"] == 0


def active_run(home: Path, name: str, by: str) -> IO[str]:
    """A run of this person, as long as the file is open."""
    run = home / ".ipexctl/runs" / f"20260101-000000-{name}"
    run.mkdir(parents=True)
    kept = journal.create_journal(str(run), "node01")
    kept.add(RunBegan(RUN_FORMAT, RunAbout(name=name, by=by), began=0.0))
    os.close(kept.fd)
    lock = open(run / "lock", "w")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def test_the_advice_is_to_wait_for_an_active_run_of_another_person(home: Path) -> None:
    pushed(home)
    me = this_person()
    with active_run(home, "mine", me):
        done = remove(home, "-y", code=1)
        own = f"run mine (20260101-000000-mine) of {me} is active"
        assert done["found"][0]["in_use"] == [own]
        again = "then run the same command again"
        assert done["hosts"][0]["notes"] == [own, f"try: end it, or wait for it; {again}"]
        with active_run(home, "base", "ann@desk"):
            done = remove(home, "-y", code=1)
            theirs = "run base (20260101-000000-base) of ann@desk is active"
            *used, advice = done["hosts"][0]["notes"]
            assert sorted(used) == [theirs, own]
            assert (
                advice
                == f"try: end your own, and wait for the runs of ann@desk, or ask them; {again}"
            )
    with active_run(home, "gpt", "ann@desk"):
        advice = remove(home, "-y", code=1)["hosts"][0]["notes"][-1]
        assert advice == f"try: wait for the runs of ann@desk, or ask them; {again}"


def test_a_queued_run_without_a_keeper_keeps_everything(home: Path) -> None:
    """After a reboot of the host, until a command of the same account starts its keeper."""
    pushed(home)
    run = home / ".ipexctl/runs/20260101-000000-abcdef"
    run.mkdir(parents=True)
    queued_runs.keep_order(str(run), start_order(host="node01"))
    assert remove(home, "-y", code=1)["found"][0]["in_use"] == [f"run {run.name} is queued"]
    queued_runs.forget_order(str(run), "node01")
    assert remove(home, "-y")["exit_code"] == 0


def test_a_queued_run_whose_keeper_holds_it_is_named_once(home: Path) -> None:
    pushed(home)
    with active_run(home, "next", "ann@desk") as lock:
        run = Path(lock.name).parent
        queued_runs.keep_order(str(run), start_order(host="node01"))
        done = remove(home, "-y", code=1)
        assert done["found"][0]["in_use"] == [f"run next ({run.name}) of ann@desk is active"]
        assert done["hosts"][0]["notes"][-1].count("ann@desk") == 1


def test_hosts_that_say_the_same_share_their_lines() -> None:
    notes = ("run base of ann@desk is active",)
    recaps = [
        HostResult(f"node0{number}", HostState.FAILED, "nothing removed", notes=notes)
        for number in (1, 2, 3)
    ]
    other = HostResult("node04", HostState.OK, "nothing to remove")
    assert list(map(str, folded_lines([*recaps, other]))) == [
        "node[01-03]  failed       nothing removed",
        "    run base of ann@desk is active",
        "node04       ok           nothing to remove",
        "ok=1 changed=0 unreachable=0 failed=3 skipped=0",
    ]


def test_a_process_of_a_run_that_lost_its_agent_keeps_it_active(home: Path) -> None:
    pushed(home)
    name = "20260101-000000-abcdef"
    (home / ".ipexctl/runs" / name).mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"], env={**os.environ, "IPEXCTL_RUN_ID": name}) as left:
        try:
            assert remove(home, "-y", code=1)["found"][0]["in_use"] == [f"run {name} is active"]
        finally:
            left.kill()


def test_it_asks_and_no_means_exit_1(home: Path) -> None:
    pushed(home)
    for keys in (b"\n", b"n\n", b"\x04"):
        done = typed(home, [keys])
        assert (done.returncode, done.stdout) == (1, f"{DECLINED}\n")
        assert f"in {home}/.ipexctl (" in done.stderr
    refused = call(home, "remove", "--all")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert f"in {home}/.ipexctl (" in refused.stderr
    assert (home / ".ipexctl").is_dir()
    done = typed(home, [b"y\n"])
    assert (done.returncode, (home / ".ipexctl").exists()) == (0, False)
    assert call(home, "remove", "--all").returncode == 0  # nothing to ask about
    assert call(home, "remove").returncode == 2


def files_here(home: Path) -> None:
    for path in (
        ".cache/ipexctl/blobs/x", ".cache/ipexctl/pulled/x", ".local/state/ipexctl/last.json",
        ".local/state/ipexctl/known_hosts", ".config/ipexctl/config.toml",
        ".local/state/ipexctl/accepted.json",
    ):  # fmt: skip
        (home / path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (home / path).write_text("forks = 2\n" if path.endswith("toml") else "{}")


def test_here_the_cache_goes_and_what_cannot_be_made_again_only_if_named(home: Path) -> None:
    files_here(home)
    (home / ".cache/ipexctl/mine").write_text("")
    pushed(home)
    done = remove(home, "-y", "--here")
    removed = {one["kind"]: one["removed"] for one in done["here"]}
    assert removed == {"cache": True, "results": True, "keys": False, "settings": False}
    assert listing(home / ".cache/ipexctl") == ["mine"]
    assert listing(home / ".local/state/ipexctl") == ["accepted.json", "known_hosts"]
    done = remove(home, "-y", "--here", "--also", "keys", "--also", "settings")
    assert not (home / ".local/state/ipexctl").exists()
    assert not (home / ".config/ipexctl").exists()


def test_here_it_asks_for_each_kind_that_was_not_named(home: Path) -> None:
    files_here(home)
    pushed(home)
    done = typed(home, [b"y\n", b"y\n", b"n\n"], "--here")
    assert done.returncode == 0, done.stderr
    assert " keys " in done.stderr
    assert listing(home / ".local/state/ipexctl") == ["accepted.json"]
    assert (home / ".config/ipexctl/config.toml").exists()


def test_what_a_killed_agent_left_in_the_temporary_folder_goes(home: Path) -> None:
    pushed(home)
    tmp = home.parent
    for name in ("ipexctl-abcd1234", "ipexctl-live1234", "ipexctl-notours0"):
        (tmp / name).mkdir(0o700)
    (tmp / "ipexctl-abcd1234/lock").touch()
    with (tmp / "ipexctl-live1234/lock").open("w") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        assert remove(home, "-y")["exit_code"] == 0
    left = sorted(p.name for p in tmp.glob("ipexctl-*"))
    assert left == ["ipexctl-live1234", "ipexctl-notours0"]
