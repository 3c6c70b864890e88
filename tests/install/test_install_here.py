"""The real command on this machine with stand-in wheels: what it does, and what faults do to it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from pathlib import Path

import pytest

from ipexctl.install import fleet_locks
from ipexctl.inventory.inventory import Host
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.run.plan.launch_plan import read_prepared
from ipexctl.stack.lock_file import parse_lock
from tests.install.conftest import Shop, finish, make_wheel, until


def test_the_first_run_changes_the_host_and_the_second_changes_nothing(shop: Shop) -> None:
    first = shop.install()
    assert (first.code, first.states) == (0, ["changed"]), first.err + first.out
    key = first.document["environment"]
    assert shop.current == f"envs/{key}"
    assert shop.envs() == [".lock", key]
    before = {p: p.lstat().st_mtime_ns for p in shop.root.rglob("*")}
    second = shop.install()
    assert (second.code, second.states) == (0, ["ok"])
    assert second.document["bytes_sent"] == second.document["bytes_fetched"] == 0
    assert {p: p.lstat().st_mtime_ns for p in shop.root.rglob("*")} == before


def test_the_lock_names_every_file_and_no_place(shop: Shop) -> None:
    shop.install()
    text = (shop.work / "ipexctl.lock").read_text()
    lock = parse_lock(text, "ipexctl.lock")
    assert [(p.name, p.version) for p in lock.files] == [
        ("numpy", "2.0"), ("torch", "2.13.0+cpu"), ("uv", "0.9.9"),
    ]  # fmt: skip
    assert "/" not in text and "://" not in text


def test_a_lock_that_is_there_decides_although_newer_files_exist(shop: Shop) -> None:
    shop.install()
    text = (shop.work / "ipexctl.lock").read_text()
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    other = shop.install("--root", str(shop.folder / "other"))
    assert (other.code, other.states) == (0, ["changed"])
    assert (shop.work / "ipexctl.lock").read_text() == text
    assert parse_lock(text, "").version("numpy") == "2.0"


def test_a_locked_file_is_found_again_on_a_machine_that_never_fetched_it(shop: Shop) -> None:
    first = shop.install()
    (shop.folder / "cache").rename(shop.folder / "gone")
    second = shop.install("--root", str(shop.folder / "other"))
    assert second.states == ["changed"]
    assert second.document["environment"] == first.document["environment"]


def test_a_locked_file_that_has_changed_since_is_refused(shop: Shop) -> None:
    shop.install()
    (shop.folder / "cache").rename(shop.folder / "gone")
    make_wheel(shop.wheels, "numpy", "2.0", {"numpy.py": b"evil = True"})
    second = shop.install("--root", str(shop.folder / "other"))
    assert (second.code, second.slug) == (2, "locked-file-differs")
    assert "numpy-2.0-py3-none-any.whl" in second.err
    assert not (shop.folder / "other" / "current").exists()


def test_check_changes_nothing_anywhere(shop: Shop) -> None:
    rehearsal = shop.install("--check")
    assert (rehearsal.code, rehearsal.states) == (0, ["changed"])
    assert not shop.root.exists()
    assert list(shop.work.iterdir()) == []


def test_a_new_environment_that_fails_its_proof_leaves_current_as_it_was(shop: Shop) -> None:
    shop.install()
    good = shop.current
    (shop.work / "ipexctl.lock").unlink()
    shop.torch("2.13.0+cpu", gradient=7.0)
    bad = shop.install()
    assert (bad.code, bad.states) == (1, ["failed"])
    assert "backward gave 7.0" in bad.detail
    assert shop.current == good
    assert bad.document["bytes_sent"] > 0  # it was sent all the same


@pytest.mark.parametrize("victim", ["the controller", "the builder"])
def test_after_a_kill_nothing_runs_on_and_the_next_run_completes(shop: Shop, victim: str) -> None:
    shop.hold.touch()
    installing = shop.start()
    until(lambda: shop.held.exists() and shop.held.read_text().strip())
    builder = int(shop.held.read_text())
    os.kill(builder if victim == "the builder" else installing.pid, signal.SIGKILL)
    outcome = finish(installing)
    until(lambda: not Path(f"/proc/{builder}").exists())
    assert shop.current == ""
    if victim == "the builder":
        assert (outcome.code, outcome.states) == (1, ["failed"])
        assert "signal 9" in outcome.detail
    shop.hold.unlink()
    again = shop.install()
    assert (again.code, again.states) == (0, ["changed"]), again.err
    assert [n for n in shop.envs() if n.startswith(".")] == [".lock"]


def test_two_installs_at_once_build_once_and_both_succeed(shop: Shop) -> None:
    shop.hold.touch()
    first = shop.start()
    until(lambda: shop.held.exists() and shop.held.read_text().strip())
    shop.hold.unlink()
    second = shop.start()
    until(lambda: second.poll() is not None or _waits_for_lock(shop.root))
    os.kill(int(shop.held.read_text()), signal.SIGKILL)  # the first one fails; the second goes on
    assert finish(first).states == ["failed"]
    outcome = finish(second)
    assert (outcome.code, outcome.states) == (0, ["changed"]), outcome.err
    assert len([n for n in shop.envs() if not n.startswith(".")]) == 1


def _waits_for_lock(root: Path) -> bool:
    """Two processes have the lock file open: its holder and one who waits."""
    lock = root / "install.lock"
    holders = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            holders += any(os.path.samefile(fd, lock) for fd in (process / "fd").iterdir())
        except OSError:
            continue
    return holders >= 2


def test_a_blob_damaged_on_the_hosts_disk_is_refused_and_sent_anew_next_time(shop: Shop) -> None:
    shop.hold.touch()
    first = shop.start()
    until(lambda: shop.held.exists() and shop.held.read_text().strip())
    os.kill(int(shop.held.read_text()), signal.SIGKILL)
    finish(first)
    shop.hold.unlink()
    lock = parse_lock((shop.work / "ipexctl.lock").read_text(), "")
    sha = next(p.sha256 for p in lock.packages if p.name == "torch")
    blob = shop.root / "blobs" / "sha256" / sha[:2] / sha
    blob.write_bytes(bytes(len(blob.read_bytes())))
    damaged = shop.install()
    assert (damaged.code, damaged.slugs) == (1, ["damaged"])
    assert shop.current == ""
    assert shop.install().states == ["changed"]


def test_what_no_row_offers_ends_with_3_and_the_rows_reasons(shop: Shop) -> None:
    refused = shop.install("--torch", "1.0")
    assert refused.code == 3
    rows = stack_rows()
    told = f"{len(rows)} rows, {rows[0].name} to {rows[-1].name}: torch is not 1.0"
    assert told in refused.err
    assert "ipexctl stacks " in refused.err


def test_a_run_is_told_which_modules_an_environment_has_where_all_are_known(shop: Shop) -> None:
    assert shop.install().code == 0
    env = (shop.root / "current").resolve()
    site = next(env.glob("lib/python3*/site-packages"))
    agent = start_host_agent(LocalTransport(), Host("here", local=True))

    def modules() -> frozenset[str] | None:
        asked = {"root": str(shop.root), "run_id": "r1", "ports": None, "pythons": []}
        return read_prepared(agent.call("run.run_environment.find", asked).done).modules

    try:
        found = modules()
        assert found is not None and {"torch", "numpy"} <= found and "pandas" not in found
        (site / "editable.pth").write_text("/somewhere/else\n")
        assert modules() is None
        (site / "editable.pth").unlink()
        config = env / "pyvenv.cfg"
        text = config.read_text()
        config.write_text(f"{text}\ninclude-system-site-packages = true\n")
        assert modules() is None
        config.write_text(text)
        (env / "lib").rename(shop.folder / "lib")  # as --use-env leads to somebody else's
        (env / "lib").symlink_to(shop.folder / "lib")
        assert modules() is None
    finally:
        agent.close()


def test_a_project_of_another_user_above_has_no_say_in_what_is_locked(shop: Shop) -> None:
    """uv would take a pyproject.toml in a folder above for the root of a workspace."""
    evil = shop.folder / "evil"
    evil.mkdir()
    make_wheel(evil, "numpy", "9.9.9", {"numpy.py": b""})
    shop.torch("2.13.0+cpu", "numpy")
    (shop.folder / "pyproject.toml").write_text(
        '[tool.uv.workspace]\nmembers = ["cache/ipexctl/resolve/*", "tmp/*"]\n'
        '[tool.uv.sources]\nnumpy = { index = "evil" }\n[[tool.uv.index]]\nname = "evil"\n'
        f'url = "{evil.as_uri()}"\nformat = "flat"\nexplicit = true\n'
    )
    (shop.folder / "tmp").mkdir()
    done = shop.install(TMPDIR=str(shop.folder / "tmp"))
    assert done.code == 0, done.err
    lock = (shop.work / "ipexctl.lock").read_text()
    assert "numpy-2.0-" in lock
    assert "9.9.9" not in lock


def test_an_index_without_uv_is_told_as_such(shop: Shop) -> None:
    next(shop.wheels.glob("uv-*")).unlink()
    done = shop.install()
    assert (done.code, done.slug, "uv" in done.err) == (2, "stack-not-available", True)


def test_a_new_lock_keeps_versions_and_upgrade_takes_new_ones(shop: Shop) -> None:
    shop.install()
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    make_wheel(shop.wheels, "extra", "1.0", {"extra.py": b""})
    (shop.work / "needs.txt").write_text("extra\n")
    assert shop.install("-r", "needs.txt").states == ["changed"]
    assert parse_lock((shop.work / "ipexctl.lock").read_text(), "").version("numpy") == "2.0"
    assert shop.install("--upgrade").states == ["changed"]
    lock = parse_lock((shop.work / "ipexctl.lock").read_text(), "")
    assert (lock.version("numpy"), lock.requirements) == ("2.1", ("extra",))


def test_an_install_that_holds_a_host_too_long_is_named_and_nothing_is_changed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_locks, "WAIT", 0.3)
    shop.install()
    before = shop.current
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    said = {"install": "x", "who": "beta (ann@laptop)", "since": 0}
    with open(shop.root / "install.lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (shop.root / "install.holder").write_text(json.dumps(said))
        held = shop.install("--upgrade")
    assert (held.code, held.slug) == (1, "install-locked")
    assert " beta (ann@laptop), since " in held.err
    assert shop.current == before
    assert parse_lock((shop.work / "ipexctl.lock").read_text(), "").version("numpy") == "2.0"
    assert shop.install("--upgrade").states == ["changed"]


def test_the_command_without_hosts_that_are_down_is_offered_until_the_others_are_done(
    shop: Shop,
) -> None:
    """Port 1 of this machine refuses every connection."""
    hosts = "a ansible_connection=local\nb address=127.0.0.1 port=1\n"
    (shop.work / "hosts").write_text(hosts)
    words = ("install", "-f", "hosts", "--root", str(shop.root), "-y", "--mpi", "none")
    again = f"ipexctl install -x b {' '.join(words[1:])} --check   # without b"
    would = shop.ipexctl(*words, "--check")
    assert would.code == 4
    assert would.out.splitlines()[-1] == f"try: {again}"
    said = shop.ipexctl(*words, "--check", "--json").document["next"]
    assert said == again.replace("--check", "--check --json")
    done = shop.ipexctl(*words)
    assert done.code == 4
    assert "b  unreachable" in done.out
    assert "-x b" not in done.out
    assert shop.ipexctl(*words, "--json").document["next"] is None
    assert shop.ipexctl(*words, "-x", "b").code == 0
