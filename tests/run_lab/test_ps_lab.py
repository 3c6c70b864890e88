"""ps, stop and wait on three hosts, from another controller than the one that started the run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cli import Ended, ipexctl
from tests.run_lab.test_run_faults import SLEEP, up


def second(runner, home: Path, *words: str) -> Ended:
    """From a controller with a home of its own."""
    return from_home(runner, home, runner.hostfile, runner.lab.ssh_config, *words)


def from_home(runner, home: Path, hostfile: Path, config: Path, *words: str) -> Ended:
    home.mkdir(exist_ok=True)
    lab = ("--hostfile", str(hostfile), "-F", str(config), *runner.root)
    agreed = ("-y",) if words[0] == "stop" else ()  # it is not the folder of the run
    return ipexctl(*words, *agreed, *lab, cwd=home, env=runner.environment(HOME=str(home)))


def listed(runner, home: Path, run_id: str) -> dict:
    done = second(runner, home, "ps", "-a", "--json")
    return next(row for row in json.loads(done.stdout)["runs"] if row["run_id"] == run_id)


def test_a_second_controller_lists_and_stops_the_run(runner, tmp_path):
    run = runner.start("-n", "3", "--name", "bert", str(runner.script(SLEEP)))
    up(run, 3)
    run_id = run.run_id
    row = listed(runner, tmp_path / "two", run_id)
    assert (row["state"], row["ranks_started"], row["hosts_alive"]) == (
        "running", 3, ["node01", "node02", "node03"],
    )  # fmt: skip
    assert row["last_line"] == "up"
    stopped = second(runner, tmp_path / "two", "stop", run_id[:-3], "-t", "3")
    assert (stopped.returncode, stopped.stdout) == (0, f"{run_id} is stopped\n")
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (130, "interrupted")
    assert "(ipexctl stop)" in result["cause"]
    assert runner.gone(run_id, seconds=5) == {}
    waited = second(runner, tmp_path / "two", "wait", "bert")
    assert waited.returncode == 130


def test_a_controller_that_has_other_names_for_the_hosts_finds_the_run(runner, tmp_path):
    hostfile, config = tmp_path / "hostfile", tmp_path / "ssh_config"
    hostfile.write_text("b1\nb2\nb3\n")
    config.write_text(runner.lab.ssh_config.read_text().replace("Host node0", "Host b"))
    config.chmod(0o600)
    script = "import os, time\nopen('w' + os.environ['RANK'], 'w')\n"
    script += "for i in range(150): print('step', i, flush=True); time.sleep(0.1)\n"
    began = runner.plain("-d", "-n", "3", str(runner.script(script)))
    assert began.returncode == 0, began.stderr
    run_id = began.stdout.strip()

    def other(*words: str) -> subprocess.CompletedProcess[str]:
        return from_home(runner, tmp_path / "two", hostfile, config, *words)

    watched = other("attach", run_id)
    assert watched.returncode == 0, watched.stderr
    for done in (watched, other("logs", run_id)):
        lines = done.stdout.splitlines()
        assert [sum(f"node0{n + 1} r0{n} | " in line for line in lines) for n in range(3)] == [
            150
        ] * 3
    fetched = other("fetch", run_id, "w*")
    assert (fetched.returncode, "(3 files, 0 bytes)" in fetched.stdout) == (0, True), fetched.stderr
    (row,) = json.loads(other("ps", "-a", "--json").stdout)["runs"][:1]
    assert (row["run_id"], row["state"], row["ranks_ended_well"]) == (run_id, "done", 3)
    long = runner.plain("-d", "-n", "3", str(runner.script(SLEEP))).stdout.strip()
    assert other("stop", long, "-t", "3").stdout == f"{long} is stopped\n"
    assert runner.gone(long, seconds=5) == {}


def test_a_host_that_is_off_does_not_hide_what_the_others_know(runner, tmp_path):
    script = runner.script(
        "import os, sys\n"
        "for i in range(5): print('step', i, flush=True)\n"
        "sys.exit(3 * (os.environ['RANK'] == '1'))\n"
    )
    run = runner.start("-n", "3", str(script))
    assert run.finish()["exit_code"] == 3
    run_id = run.run_id
    runner.lab.fault("node01", "kill")
    try:
        done = second(runner, tmp_path / "two", "ps", "-a", "--json")
        logs = second(runner, tmp_path / "two", "logs", run_id, "-n", "2")
    finally:
        runner.lab.heal("node01")
    lines = [line for line in logs.stdout.splitlines() if line.startswith("node01 r00 | ")]
    assert lines == ["node01 r00 | step 3", "node01 r00 | step 4"]
    assert "node01: not reached" in logs.stderr
    assert done.returncode == 4
    said = json.loads(done.stdout)
    (row,) = (row for row in said["runs"] if row["run_id"] == run_id)
    assert (row["exit_code"], row["cause"].split()[:4]) == (3, ["rank", "1", "on", "node02"])
    states = {host["host"]: host["state"] for host in said["not_asked"]}
    assert states["node01"] == "unreachable"


def test_files_that_were_removed_from_one_host_are_named_and_merged_files_are_not_whole(
    runner, tmp_path
):
    script = "import os\nos.mkdir('out')\nopen('out/' + os.environ['RANK'], 'w').write('x')\n"
    assert runner.plain("-n", "3", "--name", "shards", str(runner.script(script))).returncode == 0

    def fetched(*words: str) -> tuple[int, int, bool]:
        done = second(runner, tmp_path / "two", "fetch", "shards", "out", "--json", *words)
        said = json.loads(done.stdout)
        return done.returncode, said["files"], "node02" in said["fetched"][-1]

    assert fetched("--merge") == (0, 3, False)
    removed = runner.lab.run_in("node02", ["sh", "-c", "rm -r /home/trainer/.ipexctl/runs/*/work"])
    assert removed.returncode == 0
    assert fetched("--merge") == (1, 2, True)
    assert fetched() == (0, 2, True)
    for host, files in (("node02", 2), ("node01", 1)):  # as prune removes it, with its records
        runs = ["sh", "-c", "rm -r /home/trainer/.ipexctl/runs/*"]
        assert runner.lab.run_in(host, runs).returncode == 0
        assert fetched("--merge")[:2] == (1, files)
    assert fetched()[:2] == (1, 1)  # what rank 0 wrote is gone


def test_the_last_step_is_known_though_the_host_that_printed_it_was_pruned(runner, tmp_path):
    text = "import os\nif os.environ['RANK'] == '0':\n    print('step 7 loss 0.25')\n"
    run, _ = runner.train("-n", "3", str(runner.script(text)))
    before = listed(runner, tmp_path / "two", run.run_id)
    gone = second(runner, tmp_path / "two", "rm", run.run_id, "-y", "-l", "node01")
    assert gone.returncode == 0, gone.stderr
    row = listed(runner, tmp_path / "two", run.run_id)
    assert row["metrics"] == before["metrics"] == {"step": 7, "loss": 0.25}
    assert abs(row["began"] - before["began"]) < 60
