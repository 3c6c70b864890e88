"""Hosts that lose their supervisors, each other, or a sync half-way: on three hosts, without MPI.

Each fault once in the usual tests, five times in `make soak`.
"""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from tests.run_lab.conftest import Runner
from tests.run_lab.test_detach_lab import detached
from tests.run_lab.test_mpi_lab import without  # noqa: F401  (a fixture)
from tests.run_lab.test_ps_lab import listed, second
from tests.run_lab.test_run_faults import up

FIVE = [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 5))]
ALONE = "import time\nprint('up', flush=True)\ntime.sleep(100)\n"
# ranks 1 and 2 talk to each other for as long as rank 0 does nothing; rank 1 until rank 2 ends it
TALK = (
    "import os, socket, sys, time\n"
    "rank, (b, port) = int(os.environ['RANK']), sys.argv[1].split(':')\n"
    "if rank == 1:\n"
    "    link = socket.create_server((b, int(port))).accept()[0]\n"
    "while rank == 2:\n"
    "    try:\n"
    "        link = socket.create_connection((b, int(port)))\n"
    "        break\n"
    "    except OSError:\n"
    "        time.sleep(0.1)\n"
    "print('up', flush=True)\n"
    "while rank == 1 and (heard := link.recv(1000)):\n"
    "    link.sendall(heard)\n"
    "end = time.monotonic() + float(sys.argv[2])\n"
    "while rank != 1 and time.monotonic() < end:\n"
    "    if rank == 2:\n"
    "        link.sendall(b'x' * 1000)\n"
    "        assert len(link.recv(1000, socket.MSG_WAITALL)) == 1000\n"
    "    time.sleep(0.1)\n"
)


@pytest.fixture
def runner(without, tmp_path):  # noqa: F811
    return without.runner(tmp_path)


def on(runner: Runner, host: str, command: str) -> str:
    done = runner.lab.run_in(host, ["/bin/sh", "-c", command])
    assert done.returncode == 0, (command, done.stderr)
    return str(done.stdout)


def until(true, seconds: float):
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    return found


# --- supervisors ---------------------------------------------------------------------------------

KILL = "pkill -KILL -x ipexctl-run"
# first both stand still, else the guardian sweeps
KILL_BOTH = "pkill -STOP -x 'ipexctl-(run|guard)'; pkill -KILL -x 'ipexctl-(run|guard)'"


@pytest.mark.parametrize("_again", FIVE)
@pytest.mark.parametrize(
    ("host", "strike"), [("node01", KILL), ("node02", KILL), ("node01", KILL_BOTH)]
)
def test_ranks_do_not_outlive_a_supervisor_that_was_killed(runner, tmp_path, host, strike, _again):
    """Nothing else tells them: they do not talk to each other, and there is no MPI."""
    began = time.monotonic()
    run_id = detached(runner, "--host-timeout", "30", str(runner.script(ALONE)))
    time.sleep(3.0)
    on(runner, host, strike)
    assert runner.gone(run_id, seconds=10) == {}
    took = time.monotonic() - began
    row = until(
        lambda: (r := listed(runner, tmp_path / "b", run_id))["state"] == "failed" and r, 10
    )
    assert (row["exit_code"], row["cause"].split(":")[0]) == (121, f"{host} was lost")
    assert 3.0 <= row["seconds"] <= took + 1.0
    assert second(runner, tmp_path / "b", "wait", run_id).returncode == 121


@pytest.mark.parametrize("_again", FIVE)
def test_a_hub_that_is_stopped_for_less_than_the_timeout_keeps_its_run(runner, tmp_path, _again):
    run_id = detached(runner, "--host-timeout", "30", str(runner.script(ALONE)))
    on(runner, "node01", "pkill -STOP -x ipexctl-run")
    time.sleep(9.0)
    on(runner, "node01", "pkill -CONT -x ipexctl-run")
    time.sleep(3.0)
    row = listed(runner, tmp_path / "b", run_id)
    assert (row["state"], row["hosts_alive"]) == ("running", ["node01", "node02", "node03"])
    assert second(runner, tmp_path / "b", "stop", run_id, "-t", "1").returncode == 0


@pytest.mark.parametrize("host", ["node01", "node02"])
def test_a_host_that_is_frozen_and_back_does_not_change_how_the_run_ended(runner, tmp_path, host):
    run_id = detached(runner, "--host-timeout", "4", str(runner.script(ALONE)))
    runner.lab.fault(host, "freeze")
    try:
        before = until(lambda: (r := told(runner, tmp_path / "b", run_id))["cause"] and r, 60)
    finally:
        runner.lab.heal(host)
    until(lambda: runner.gone(run_id, seconds=1) == {}, 20)
    assert before["cause"] == f"{host} was lost: no message from it for 4 s"
    assert told(runner, tmp_path / "b", run_id) == before


def told(runner: Runner, folder, run_id: str) -> dict:
    row = listed(runner, folder, run_id)
    return {name: row[name] for name in ("state", "exit_code", "cause", "seconds")}


# --- paths ---------------------------------------------------------------------------------------


def cut(runner: Runner, here: str, there: str, *, heal: bool = False) -> None:
    """What `here` sends to `there` goes to a card that does not exist."""
    address = runner.lab.hosts[there].address
    nic = on(runner, here, f"ip -o route get {address}").split(" dev ")[1].split()[0]
    if heal:
        on(runner, here, f"ip neigh del {address} dev {nic}")
    else:
        on(
            runner,
            here,
            f"ip neigh replace {address} lladdr 02:00:00:00:00:01 dev {nic} nud permanent",
        )


@pytest.mark.parametrize("_again", FIVE)
def test_hosts_that_do_not_reach_each_other_are_named(runner, tmp_path, _again):
    script = str(runner.script(TALK))
    address = runner.lab.hosts["node02"].address
    run = runner.start("-n", "3", script, f"{address}:{20000 + os.getpid() % 9000}", "50")
    up(run, 3)
    what = "ranks on node02 and node03 get no answer from each other"
    for pair in (("node02", "node03"), ("node03", "node02")):
        cut(runner, *pair)
    try:
        (found,) = until(lambda: listed(runner, tmp_path / "b", run.run_id)["cut"], 30)
        assert (found["what"], 10.0 <= found["seconds"] < 30.0) == (what, True)
        time.sleep(3.0)
        (later,) = listed(runner, tmp_path / "b", run.run_id)["cut"]
        assert later["seconds"] >= found["seconds"] + 3.0
        assert listed(runner, tmp_path / "b", run.run_id)["state"] == "running"
    finally:
        for pair in (("node02", "node03"), ("node03", "node02")):
            cut(runner, *pair, heal=True)
    until(lambda: not listed(runner, tmp_path / "b", run.run_id)["cut"], 40)
    assert run.finish()["exit_code"] == 0
    notes = [e["text"] for e in run.events if e["event"] == "note"]
    assert [what in text for text in notes if "each other" in text] == [True, False]


@pytest.mark.parametrize("_again", FIVE)
def test_a_host_that_the_hub_does_not_hear_is_named(runner, tmp_path, _again):
    run_id = detached(runner, "--host-timeout", "60", str(runner.script(ALONE)))
    for pair in (("node01", "node03"), ("node03", "node01")):
        cut(runner, *pair)
    try:
        (found,) = until(lambda: listed(runner, tmp_path / "b", run_id)["cut"], 30)
        assert found["what"] == "node01 hears nothing from node03"
    finally:
        for pair in (("node01", "node03"), ("node03", "node01")):
            cut(runner, *pair, heal=True)
    until(lambda: not listed(runner, tmp_path / "b", run_id)["cut"], 30)
    assert second(runner, tmp_path / "b", "stop", run_id, "-t", "1").returncode == 0
    assert runner.gone(run_id, seconds=5) == {}


# --- what killed processes leave -----------------------------------------------------------------

LEFT = (
    "cd /home/trainer; ls -d .*none/runs/*/work.???????????????? /tmp/ipexctl-* 2>/dev/null; true"
)
STRIKE = (
    "cd /home/trainer; for i in $(seq 6000); do set -- .none/runs/*/work.????????????????; "
    "if [ -d \"$1\" ]; then pkill -KILL -f '[p]ython3 -ISc'; exit; fi; sleep 0.01; done; exit 1"
)


@pytest.mark.parametrize("_again", FIVE)
def test_the_next_run_removes_what_a_killed_sync_and_killed_supervisors_left(runner, _again):
    large = runner.folder / "large.bin"
    large.write_bytes(os.urandom(150 << 20))
    argv = runner.argv("-y", "-n", "3", str(runner.script("print('up')\n")))
    run = subprocess.Popen(
        argv, cwd=runner.folder, env=runner.environment(), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    runner.started.append(run)
    on(runner, "node02", STRIKE)
    run.kill()
    run.wait()
    assert "/work." in on(runner, "node02", LEFT)
    large.unlink()
    run_id = detached(runner, str(runner.script(ALONE)))
    for host in runner.lab.hosts:
        on(runner, host, KILL_BOTH)
    assert runner.gone(run_id, seconds=10) == {}
    assert "/tmp/ipexctl-" in on(runner, "node01", LEFT)
    last = runner.start("-n", "3", str(runner.script("print('up')\n")))
    assert last.finish()["exit_code"] == 0
    for host in runner.lab.hosts:
        until(lambda host=host: on(runner, host, LEFT).split() == [], 10)
