"""Runs that their hosts start again: a failed rank, a lost host, the first host. Without MPI."""

from __future__ import annotations

import json
import re
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from tests.cli import ipexctl
from tests.run_lab.test_mpi_lab import without  # noqa: F401  (a fixture)
from tests.run_lab.test_ps_lab import second

# each rank says in which attempt it is; rank 1 of the first one fails if asked to
TRAIN = (
    "import os, sys, time\n"
    "attempt, rank = (os.environ[n] for n in ('TORCHELASTIC_RESTART_COUNT', 'RANK'))\n"
    "print('up', rank, 'of', os.environ['WORLD_SIZE'], 'attempt', attempt, flush=True)\n"
    "open('out-%s-%s' % (rank, attempt), 'w').close()\n"
    "for _ in range(int(sys.argv[1])):\n"
    "    time.sleep(0.2)\n"
    "    if (rank, attempt, sys.argv[2:]) == ('1', '0', ['fail']):\n"
    "        sys.exit(7)\n"
    "    if attempt == '0' and sys.argv[2:] == ['wrong']:\n"
    "        import no_such_module\n"
    "    if sys.argv[2:] and sys.argv[2] == os.uname().nodename:\n"
    "        open('/nothing/here.csv')\n"
)
# all that a user has on a host but its sshd, as when it loses power
POWER_OFF = (
    "for p in /proc/[0-9]*; do "
    "if [ -O $p ] && [ $p != /proc/$$ ] "
    "&& grep -qa 'ipexctl\\|rank.pyc\\|python3' $p/comm $p/cmdline 2>/dev/null; "
    "then kill -9 ${p#/proc/} 2>/dev/null; fi; done; true"
)


@pytest.fixture
def runner(without, tmp_path):  # noqa: F811
    made = without.runner(tmp_path)
    yield made
    assert keepers(made) == {}


def keepers(runner) -> dict[str, str]:
    """Hosts on which a keeper lives after a few seconds."""
    for _ in range(50):
        look = ["/bin/sh", "-c", "pgrep -x ipexctl-keeper"]
        said = {name: runner.lab.run_in(name, look).stdout for name in runner.lab.hosts}
        if not (found := {name: out for name, out in said.items() if out}):
            return {}
        time.sleep(0.2)
    return found


def attempts_of(runner, home, run_id: str) -> list[dict]:
    """The rows of all attempts of a run that began, the first one first."""
    rows = json.loads(second(runner, home, "ps", "-a", "--json").stdout)["runs"]
    return [row for row in reversed(rows) if row["run_id"].startswith(run_id)]


def rows_of(runner, home, run_id: str) -> list[dict]:
    return [row for row in attempts_of(runner, home, run_id) if row["run_id"] == run_id]


def rows_soon(runner, home, run_id: str) -> list[dict]:
    deadline = time.monotonic() + 30
    while not (rows := rows_of(runner, home, run_id)) and time.monotonic() < deadline:
        time.sleep(0.3)
    return rows


@contextmanager
def not_reaching(lab, host: str, others: tuple[str, ...]):
    """A host that sends nothing to others, and reaches this machine."""

    def neighbours(change: str, more: str = "") -> list[int]:
        nic = "dev $(ls /sys/class/net | grep -vx lo)"
        lines = [f"ip neigh {change} {lab.hosts[other].address} {more} {nic}" for other in others]
        return [lab.run_in(host, ["/bin/sh", "-c", line]).returncode for line in lines]

    try:
        assert set(neighbours("replace", "lladdr 02:00:00:de:ad:01 nud permanent")) == {0}
        yield
    finally:
        neighbours("del")


def power_off(runner, host: str) -> None:
    """For a moment: where a command shows the run, the host is back soon."""
    runner.lab.run_in(host, ["/bin/sh", "-c", POWER_OFF], user="trainer")


@contextmanager
def powered_off(runner, host: str):
    runner.lab.fault(host, "kill")
    try:
        yield
    finally:
        runner.lab.heal(host)


def test_a_failed_rank_is_started_again_with_all_others(runner, tmp_path):
    run = runner.start("-ppn", "1", "--restarts", "2", str(runner.script(TRAIN)), "10", "fail")
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
    assert "up 1 of 3 attempt 0" in run.lines(1) and "up 1 of 3 attempt 1" in run.lines(1)
    assert runner.gone(run.run_id, seconds=5) == {}
    assert runner.gone(f"{run.run_id}-r02", seconds=5) == {}
    words = (run.run_id, "out-*", "--merge", "-o", str(tmp_path / "came"))
    fetched = second(runner, tmp_path / "two", "fetch", *words)
    assert fetched.returncode == 0, fetched.stderr
    came = sorted(path.name for path in (tmp_path / "came").iterdir())
    assert came == [f"out-{rank}-{attempt}" for rank in range(3) for attempt in range(2)]
    why = second(runner, tmp_path / "two", "why", run.run_id).stdout
    assert f"run {run.run_id}-r02, attempt 2 · 3 ranks on node[01-03]" in why, why


@pytest.mark.parametrize("host", ["node01", "node02"])
def test_a_spare_takes_the_place_of_a_lost_host(runner, host):
    options = ("-ppn", "1", "--restarts", "2", "--spares", "node03", "--host-timeout", "6s")
    run = runner.start(*options, "--fetch", "out-*", str(runner.script(TRAIN)), "40")
    seen = set[int]()
    while len(seen) < 2:
        seen.add(run.until(event="line")["rank"])
    with powered_off(runner, host):
        result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
    moved = {"node01": 0, "node02": 1}[host]
    last = [e for e in run.events if e["event"] == "line" and e["rank"] == moved][-1]
    assert (last["host"], last["text"]) == ("node03", f"up {moved} of 2 attempt 1")
    kept = Path(result["folder"])  # of the last attempt
    assert kept.name == f"{run.run_id}-r02"
    assert f"up {moved} of 2" in (kept / f"logs/rank{moved:05d}.node03.log").read_text()
    on_top = {path.name for path in (kept / "outputs").glob("out-*")}  # of rank 0's host
    assert on_top == ({"out-0-1"} if host == "node01" else {"out-0-0", "out-0-1"})
    first = json.loads((kept.parent / run.run_id / "result.json").read_text())
    assert (first["run_id"], first["exit_code"]) == (run.run_id, 121)
    told = second(runner, runner.folder, "attach", "--ui", "plain", f"{run.run_id}-r01").stdout
    for line in (f"{host} r0{moved} | up {moved} of 2 attempt 0", f"node03 r0{moved} | up {moved}"):
        assert told.count(line) == 1, told


def test_a_host_that_is_back_takes_the_place_of_the_next_one_that_is_lost(runner):
    options = ("-ppn", "1", "--restarts", "3", "--spares", "node03", "--host-timeout", "6s")
    run = runner.start(*options, str(runner.script(TRAIN)), "150")
    seen = set[int]()
    while len(seen) < 2:
        seen.add(run.until(event="line")["rank"])
    with powered_off(runner, "node01"):
        while (line := run.until(event="line"))["host"] != "node03":
            pass
        assert (line["rank"], line["text"]) == (0, "up 0 of 2 attempt 1")
    while "node01 is back" not in run.until(event="note")["text"]:
        pass
    with powered_off(runner, "node03"):
        result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
    last = [e for e in run.events if e["event"] == "line" and e["rank"] == 0][-1]
    assert (last["host"], last["text"]) == ("node01", "up 0 of 2 attempt 2")


FINAL = """
import os, sys, time
if os.environ["RANK"] == "0":
    os.makedirs("out/ck-1")
    open("out/ck-1/model", "w").write("x")
time.sleep(3)
print("FINAL attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("host", ["node01", "node02"])
@pytest.mark.parametrize("options", [(), ("--restarts", "2")])
def test_a_run_of_which_all_ranks_have_ended_is_done_though_a_host_is_lost_then(
    runner, tmp_path, host, options
):
    """While its last checkpoint is copied, which takes 8 s at least."""
    words = ("-d", "-ppn", "1", *options, "--checkpoints", "out/ck-*", "--host-timeout", "6s")
    done = runner.plain(*words, str(runner.script(FINAL)))
    assert done.returncode == 0, done.stderr
    run_id, home = done.stdout.split()[-1], tmp_path / "two"
    look = ["/bin/sh", "-c", f"grep -rls RanksSucceeded .[a-z]*/runs/{run_id}/journals"]
    deadline = time.monotonic() + 120
    while runner.lab.run_in("node03", look, user="trainer").returncode:
        assert time.monotonic() < deadline
        time.sleep(0.3)
    with powered_off(runner, host):
        waited = second(runner, home, "wait", run_id)
        assert (waited.returncode, rows_of(runner, home, f"{run_id}-r02")) == (0, [])
        (row,) = rows_of(runner, home, run_id)
        assert (row["state"], row["exit_code"]) == ("done", 0)


def test_a_run_that_ended_without_a_host_does_not_wait_there_for_ps_when_it_is_back(
    runner, tmp_path
):
    """Newer runs have ended since: the other hosts list it no more unless they are asked for it."""
    options = ("-d", "-ppn", "1", "--restarts", "2", "--min-hosts", "2", "--host-timeout", "6s")
    done = runner.plain(*options, "--name", "cut", str(runner.script(TRAIN)), "150")
    assert done.returncode == 0, done.stderr
    run_id, home = done.stdout.split()[-1], tmp_path / "two"
    assert wait_until(lambda: bool(rows_of(runner, home, run_id)), 60)
    runner.lab.fault("node01", "unplug")
    try:
        waited = second(runner, home, "wait", run_id)
        assert waited.returncode == 0, waited.stderr
        look = ["/bin/sh", "-c", "pgrep -x ipexctl-keeper"]  # they stay until most know of the end
        for name in ("node02", "node03"):
            assert wait_until(lambda: not runner.lab.run_in(name, look).stdout, 60)  # noqa: B023
    finally:
        runner.lab.heal("node01")
    done = runner.plain("-ppn", "1", str(runner.script("print(1)")))
    assert done.returncode == 0, done.stderr
    assert json.loads(second(runner, home, "ps", "--json").stdout)["runs"] == []
    assert second(runner, home, "wait", "cut").returncode == 0
    power_off(runner, "node01")  # its keeper would wait there for minutes


def test_a_spare_that_is_not_reached_at_the_start_is_left_out(runner):
    options = ("-ppn", "1", "--restarts", "2", "--spares", "node03")
    with powered_off(runner, "node03"):
        run = runner.start(*options, str(runner.script(TRAIN)), "5")
        result = run.until(event="result", seconds=120)
    assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
    assert run.process.wait(30) == 0
    assert "node03 does not stand by" in run.process.stderr.read()


def test_an_error_that_a_restart_does_not_change_ends_the_run(runner, tmp_path):
    run = runner.start("-ppn", "1", "--restarts", "2", str(runner.script(TRAIN)), "10", "wrong")
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (1, "rank-failed")
    assert not any("attempt 1" in line for line in run.lines())
    later = second(runner, tmp_path / "two", "attach", "--ui", "plain", run.run_id)
    assert (later.returncode, later.stderr.count("no further attempt: ")) == (1, 1)


def test_a_spare_takes_the_place_of_a_host_that_alone_lacks_a_file(runner):
    options = ("-ppn", "1", "--restarts", "2", "--spares", "node03")
    run = runner.start(*options, str(runner.script(TRAIN)), "10", "node02")
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
    last = [e for e in run.events if e["event"] == "line" and e["rank"] == 1][-1]
    assert (last["host"], last["text"]) == ("node03", "up 1 of 2 attempt 1")


def test_a_run_is_stopped_between_two_attempts_and_its_story_is_shown_later(runner, tmp_path):
    options = ("-d", "-ppn", "1", "--restarts", "5", "--spares", "node03", "--host-timeout", "15s")
    done = runner.plain(*options, str(runner.script(TRAIN)), "3000")  # ten minutes
    assert done.returncode == 0, done.stderr
    run_id, home = done.stdout.split()[-1], tmp_path / "two"
    power_off(runner, "node02")
    deadline = time.monotonic() + 120
    while [row["state"] for row in rows_of(runner, home, run_id)] == ["running"]:
        assert time.monotonic() < deadline
    stopped = second(runner, home, "stop", run_id)
    assert stopped.returncode == 0, stopped.stderr
    # on a slow machine, the next attempt has begun when the stop arrives
    rows = attempts_of(runner, home, run_id)
    last = rows[-1]
    assert (last["state"], last["exit_code"]) == ("stopped", 130), (rows, stopped.stdout)
    assert last["cause"].startswith("stopped by "), rows
    assert stopped.stdout == f"{last['run_id']} is stopped\n"
    assert all(row["state"] == "failed" for row in rows[:-1]), rows
    for command in (("wait",), ("attach", "--ui", "plain")):
        assert second(runner, home, *command, run_id).returncode == 130
    assert runner.gone(f"{run_id}-r02", seconds=5) == {}
    alive = [row for row in attempts_of(runner, home, run_id) if row["hosts_alive"]]
    assert alive == [] and keepers(runner) == {}


def test_all_commands_name_the_host_for_which_the_last_attempts_did_not_begin(runner, tmp_path):
    options = ("-d", "-ppn", "1", "--restarts", "5", "--spares", "node03", "--host-timeout", "6s")
    typed = runner.argv(*options, str(runner.script(TRAIN)), "300")  # a process: it has these words
    done = subprocess.run(
        typed, cwd=runner.folder, env=runner.environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    run_id, home = done.stdout.split()[-1], tmp_path / "two"
    runs = f"$(dirname $(ls -d $HOME/.*/runs/{run_id}))"

    def change_mode(mode: str) -> int:
        words = ["/bin/sh", "-c", f"chmod {mode} {runs}"]
        return runner.lab.run_in("node03", words, user="trainer").returncode

    assert change_mode("500") == 0
    try:
        with powered_off(runner, "node01"):
            words = ("--hostfile", str(runner.hostfile), "-F", str(runner.lab.ssh_config))
            own = ipexctl("wait", run_id, *words, *runner.root, cwd=runner.folder)
            waited = second(runner, home, "wait", run_id)
            assert waited.returncode == 121, waited.stderr
            ((row,), said) = rows_of(runner, home, run_id), second(runner, home, "why", run_id)
            shown = second(runner, home, "attach", "--ui", "plain", run_id)
    finally:
        change_mode("700")
    assert row["cause"].startswith("node03: cannot create the folder")
    assert row["attempts_not_begun"][-1]["cause"] == row["cause"].partition(";")[0]
    assert "again: " not in waited.stdout  # it was typed on another machine
    (again,) = re.findall("again: (ipexctl run -x node01 -x node03 -f .*)", own.stdout)
    assert "--spares" not in again and again.endswith("script.py 300")
    for text in (waited.stdout, said.stdout, shown.stderr + shown.stdout):
        words = " ".join(text.split())
        assert row["cause"] in words
        assert "attempt 2 on node[02-03] did not begin: node03: cannot create" in words
    assert shown.returncode == 121 and "another attempt followed" not in said.stdout


def test_a_detached_run_of_which_a_rank_never_starts_goes_on_without_its_command(runner, tmp_path):
    options = ("-d", "--force", "-ppn", "1", "--restarts", "5", "--spares", "node03")
    more = ("--host-timeout", "6s", str(runner.script(TRAIN)), "300")
    with not_reaching(runner.lab, "node02", ("node01", "node03")):
        done = runner.plain(*options, *more)
        assert done.returncode == 0, done.stderr
        run_id, home = done.stdout.split()[-1], tmp_path / "two"
        again = f"{run_id}-r02"
        assert rows_soon(runner, home, again)
    assert second(runner, home, "stop", run_id).returncode == 0
    assert runner.gone(again, seconds=5) == {}


def test_a_detached_run_is_known_by_its_first_id_and_stops_for_good(runner, tmp_path):
    options = ("-d", "-ppn", "1", "--restarts", "5", str(runner.script(TRAIN)), "300", "fail")
    done = runner.plain(*options)
    assert done.returncode == 0, done.stderr
    run_id, home = done.stdout.split()[-1], tmp_path / "two"
    again = f"{run_id}-r02"
    rows = rows_soon(runner, home, again)
    stopped = second(runner, home, "stop", run_id)
    assert stopped.returncode == 0, stopped.stderr
    assert [row["state"] for row in rows_of(runner, home, again)] == ["stopped"]
    assert rows and rows_of(runner, home, f"{run_id}-r03") == []
    assert runner.gone(f"{run_id}-r02", seconds=5) == {}


FAILS_ONCE = (
    "import os, sys, time\n"
    "attempt, rank = (os.environ[n] for n in ('TORCHELASTIC_RESTART_COUNT', 'RANK'))\n"
    "print('up', rank, 'of', os.environ['WORLD_SIZE'], 'attempt', attempt, flush=True)\n"
    "for _ in range(3000):\n"
    "    time.sleep(0.1)\n"
    "    if attempt == '0' and rank == '0' and os.path.exists('/tmp/fail-now'):\n"
    "        sys.exit(7)\n"
)


@pytest.mark.parametrize("killed", ["-ox", "-nx"])
def test_ps_starts_a_killed_keeper_again_and_the_next_attempt_has_its_host(
    runner, tmp_path, killed
):
    """Of node02, which is healthy: the keeper, or what starts its guardians."""
    options = ("-d", "-ppn", "1", "--restarts", "2", "--min-hosts", "1", "--host-timeout", "6s")
    done = runner.plain("--name", "bert", *options, str(runner.script(FAILS_ONCE)))
    assert done.returncode == 0, done.stderr
    run_id, home = done.stdout.split()[-1], tmp_path / "two"

    def shell(host: str, line: str) -> str:
        return str(runner.lab.run_in(host, ["/bin/sh", "-c", line]).stdout)

    def with_keeper() -> set[str]:
        return {name for name in runner.lab.hosts if shell(name, "pgrep -x ipexctl-keeper")}

    assert wait_until(lambda: with_keeper() == {"node01", "node02", "node03"}, 60, 0.5)
    shell("node02", f"kill -9 $(pgrep {killed} ipexctl-keeper)")
    assert wait_until(lambda: with_keeper() == {"node01", "node03"}, 60, 0.5)
    said = []

    def is_watched() -> bool:
        said.append(second(runner, home, "ps").stderr)
        return with_keeper() == {"node01", "node02", "node03"}

    assert wait_until(is_watched, 120, 1.0), said
    notes = " ".join("".join(said).split())
    assert "bert: 1 of 3 hosts keeps no watch (node02); its keeper is started again" in notes
    (row,) = rows_of(runner, home, run_id)
    assert (row["state"], row["ranks_started"]) == ("running", 3)
    shell("node01", "touch /tmp/fail-now")
    try:
        assert wait_until(lambda: rows_of(runner, home, f"{run_id}-r02") != [], 120, 1.0)
        (row,) = rows_of(runner, home, f"{run_id}-r02")
        assert sorted(row["hosts"]) == ["node01", "node02", "node03"]
    finally:
        shell("node01", "rm /tmp/fail-now")
        second(runner, home, "stop", f"{run_id}-r02", "-t", "0")
