"""ps, logs, stop and wait of runs on this machine, which has a stand-in for torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import Target
from ipexctl.remote.run import run_logs
from ipexctl.remote.run_files import journal
from ipexctl.run.jobs.ps import find_run, gather_runs
from tests.cli import Ended, ipexctl
from tests.refused import refused
from tests.ssh.test_shell import Terminal

REPO = Path(__file__).parents[2]
TRAIN = (
    "import os, sys, time, torch\n"
    "for i in range(int(sys.argv[1])): print('step', i, flush=True); time.sleep(0.1)\n"
    "sys.exit(int(os.environ['RANK']) * int(sys.argv[2]))\n"
)
LONG = ("train.py", "1000", "0")


class Here:
    def __init__(self, folder: Path) -> None:
        venv.create(folder / "env", symlinks=True)
        site = next((folder / "env/lib").glob("python3*")) / "site-packages"
        (site / "torch").mkdir()
        (site / "torch/__init__.py").write_text("")
        self.code = folder / "code"
        for name in ("home", "code"):
            (folder / name).mkdir()
        (self.code / "train.py").write_text(TRAIN)
        self.env = {
            "HOME": str(folder / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO),
            "VIRTUAL_ENV": str(folder / "env"),
        }  # fmt: skip
        self.started: list[subprocess.Popen[str]] = []

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "ipexctl", *words]

    def call(self, *words: str) -> Ended:
        return ipexctl(*words, cwd=self.code, env=self.env)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Returns when both ranks have printed."""
        run = subprocess.Popen(
            self.argv("run", "-n", "2", "--force", *words), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.code, env=self.env,
        )  # fmt: skip
        self.started.append(run)
        assert run.stdout
        seen: set[str] = set()
        while len(seen) < 2:
            line = run.stdout.readline()
            assert line, run.communicate()
            seen.add(line.split("|")[0])
        return run

    def listed(self, *words: str) -> list[dict]:
        done = self.call("ps", "--json", *words)
        assert done.returncode == 0, done.stderr + done.stdout
        found: list[dict] = json.loads(done.stdout)["runs"]
        return found


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    made = Here(tmp_path)
    yield made
    for row in made.listed():
        made.call("stop", row["run_id"], "-t", "0")
    for run in made.started:
        run.kill()
        with suppress(ValueError):  # a test has closed its output
            run.communicate()


def test_a_run_is_listed_stopped_and_waited_for_from_another_terminal(here: Here) -> None:
    run = here.start("--name", "bert", *LONG)
    (row,) = here.listed()
    assert (row["name"], row["state"], row["ranks_started"]) == ("bert", "running", 2)
    assert (row["command"], row["hosts_alive"]) == ("train.py 1000 0", ["localhost"])
    assert row["last_line"].startswith("step ")
    assert (row["metrics"], row["place"], row["yours"]) == (None, None, True)
    text = here.call("ps", "-v").stdout
    (line,) = (line for line in text.splitlines() if line.startswith(row["run_id"]))
    assert line.split()[1:5] == ["running", "2", "of", "2"] and " localhost, " in line
    assert "  bert: train.py 1000 0\n" in text
    head, line, *_ = here.call("ps").stdout.splitlines()
    assert head.split()[:5] == ["NAME", "STATE", "RANKS", "HOSTS", "SINCE"]
    assert line.split()[:4] == ["bert", "running", "2", "localhost"]
    waits = subprocess.Popen(
        here.argv("wait", "bert"), stdout=subprocess.PIPE, text=True, cwd=here.code, env=here.env
    )
    stopped = here.call("stop", "bert", "-t", "5")
    assert (stopped.returncode, stopped.stdout) == (0, f"{row['run_id']} is stopped\n")
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "(ipexctl stop): " in said and " 5 s " in said
    assert waits.wait(timeout=30) == 130
    assert here.listed() == []
    (row,) = here.listed("-a")
    assert (row["state"], row["exit_code"]) == ("stopped", 130)
    assert row["cause"].endswith("(ipexctl stop)")
    assert row["bytes"] > 0
    again = here.call("stop", "@last")
    assert (again.returncode, again.stdout.split()[0]) == (0, row["run_id"])
    assert again.stdout.endswith("ended: stopped\n")


@pytest.mark.parametrize(("code", "state", "cause"), [
    ("0", "done", None), ("3", "failed", "rank 1 on localhost exited with code 3"),
])  # fmt: skip
def test_how_a_run_ended_is_known_afterwards(
    here: Here, code: str, state: str, cause: str | None
) -> None:
    here.start("train.py", "3", code).communicate(timeout=60)
    (row,) = here.listed("-a")
    assert (row["state"], row["exit_code"], row["cause"]) == (state, int(code), cause)
    waited = here.call("wait", row["run_id"][:15])
    assert waited.returncode == int(code)


def test_of_a_run_whose_ipexctl_was_killed_the_hosts_know_that(here: Here) -> None:
    run = here.start(*LONG)
    os.kill(run.pid, signal.SIGKILL)
    wait_until(lambda: not here.listed(), 20, 0.1)
    (row,) = here.listed("-a")
    assert (row["state"], row["exit_code"]) == ("failed", 121)
    assert row["cause"].startswith("localhost: ") and "connection to" in row["cause"]
    assert here.call("wait", "@last").returncode == 121


def test_step_and_loss_in_the_table_are_those_that_the_run_printed_last(here: Here) -> None:
    (here.code / "fit.py").write_text("for i in range(3): print('step', i, 'loss', 1 / (i + 1))\n")
    assert here.call("run", "-n", "2", "--force", "fit.py").returncode == 0
    (row,) = here.listed("-a")
    assert row["metrics"] == {"step": 2, "loss": 1 / 3}
    _, line, *_ = here.call("ps", "-a").stdout.splitlines()
    assert line.split()[1:4] == ["done", "2", "localhost"] and line.split()[-2:] == ["2", "0.3333"]


def test_where_no_run_is_that_is_said(here: Here) -> None:
    said = here.call("ps").stdout  # other accounts may have theirs here
    assert "ipexctl ps -a" in said.splitlines()[0]
    none = here.call("stop", "bert")
    assert (none.returncode, none.slug) == (2, "no-runs")
    assert not (here.code.parent / "home" / ".ipexctl").exists()
    odd = here.call("run", "--name", "2026", "train.py", "1", "0")
    assert (odd.returncode, odd.slug) == (2, "run-name-invalid")
    assert "--name '2026': " in odd.stderr


def test_a_run_that_is_over_can_be_removed_and_one_that_goes_on_cannot(here: Here) -> None:
    run = here.start("--name", "bert", *LONG)
    refused = here.call("rm", "bert", "-y")
    (row,) = here.listed()
    assert (refused.returncode, refused.slug) == (2, "run-active")
    assert row["run_id"] in refused.errors[0].hint
    here.call("stop", "bert", "-t", "1")
    run.communicate(timeout=30)
    folder = here.code.parent / "home" / ".ipexctl" / "runs" / row["run_id"]
    assert row["run_id"] in here.call("rm", "bert", "--check").stdout
    asked = here.call("rm", "bert")
    assert (asked.returncode, asked.slug) == (2, "no-terminal")
    assert row["run_id"] in asked.stderr
    assert folder.is_dir()
    done = here.call("rm", "bert", "-y")
    assert (done.returncode, folder.exists()) == (0, False), done.stderr
    assert here.listed("-a") == []


def test_a_run_on_the_cores_of_another_one_says_which_each_time(here: Here) -> None:
    here.start("--name", "bert", *LONG)
    (row,) = here.listed()
    for _ in range(2):
        done = here.call("run", "--force", "train.py", "1", "0")
        assert done.returncode == 0, done.stderr
        said = f"another run uses these cores: run {row['run_id']} (bert, train.py 1000 0) of "
        (line,) = (text for text in done.stderr.splitlines() if said in text)
        assert (
            "preflight: LOAD-004   localhost  " in line
            and ", 2 ranks, " in line
            and ", for " in line
        )
    here.call("stop", "bert", "-t", "0")
    assert row["run_id"] not in here.call("run", "--force", "train.py", "1", "0").stderr


def test_a_shell_on_a_host_with_a_run_says_so_first(here: Here) -> None:
    here.start("--name", "bert", *LONG)
    (row,) = here.listed()
    variables = [f"{name}={value}" for name, value in here.env.items()]
    hosts = here.code / "hosts"
    hosts.write_text("localhost ansible_connection=local\n")
    words = ["env", "-i", *variables, *here.argv("shell", "localhost", "-f", str(hosts))]
    terminal = Terminal(words, 40, 200)
    run = rf"run {row['run_id']} \(bert, train.py 1000 0\)"
    terminal.until(rf"localhost: {run} is running here: \S+, 2 ranks, .*, for \d+ ")
    terminal.until(r"[$#] $")
    terminal.type("exit\r")
    assert terminal.exit_code() == 0


@pytest.mark.parametrize(
    "runs", [6, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_runs_in_a_row_leave_a_bounded_disk_and_no_process(here: Here, runs: int) -> None:
    settings = here.code.parent / "home/.config/ipexctl/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[prune]\nruns = 3\ndays = 0\n")
    top, taken = here.code.parent / "home/.ipexctl", []
    for _ in range(runs):
        done = here.call("run", "--force", "-n", "2", "train.py", "1", "0")
        assert done.returncode == 0, done.stderr
        taken.append(sum(p.lstat().st_blocks * 512 for p in top.rglob("*")))
    print(f"{runs} runs: {taken[0]} bytes after the first, {taken[-1]} after the last")
    assert max(taken[3:]) - min(taken[3:]) < 20_000
    assert "pruned " in done.stderr and " 1 run " in done.stderr
    rows = here.listed("-a")
    assert [row["state"] for row in rows] == ["done"] * 3
    assert all(0 < row["bytes"] < 200_000 for row in rows)
    assert here.call("ps", "-a").stdout.count(" kB ") == 3
    assert processes_of(here.code.parent) == []


def processes_of(folder: Path) -> list[str]:
    """What runs with this HOME."""
    found, mark = [], f"HOME={folder}/home".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_text())
    return found


# --- logs ----------------------------------------------------------------------------------------


def test_logs_of_a_run_that_is_over_are_shown_rank_after_rank(here: Here) -> None:
    here.start("--name", "short", "train.py", "3", "3").communicate(timeout=60)
    lines = [f"localhost r0{rank} | step {i}" for rank in (0, 1) for i in range(3)]
    assert here.call("logs", "short").stdout.splitlines() == lines
    assert here.call("logs", "short", "-n", "1").stdout.splitlines() == [lines[2], lines[5]]
    alone = here.call("logs", "@last", "--rank", "1")
    assert (alone.returncode, alone.stdout) == (0, "step 0\nstep 1\nstep 2\n")
    events = map(json.loads, here.call("logs", "short", "--json", "-n", "1").stdout.splitlines())
    assert [(e["rank"], e["text"]) for e in events] == [(0, "step 2"), (1, "step 2")]


def test_of_two_runs_with_one_name_the_active_one_is_meant(here: Here) -> None:
    first = here.call("run", "-d", "-n", "1", "--force", "--name", "bert", *LONG).stdout.strip()
    said = json.loads(here.call("stop", "bert", "-t", "1s", "--json").stdout)
    assert (said["state"], said["exit_code"], said["command_exit_code"]) == ("stopped", 130, 0)
    second = here.call("run", "-d", "-n", "1", "--force", "--name", "bert", *LONG).stdout.strip()
    third = here.call("run", "--json", "-n", "1", "--force", "--name", "bert", "train.py", "1", "0")
    assert third.returncode == 0, third.stderr
    assert sorted(row["name"] for row in here.listed("-a")) == ["bert", "bert", "bert-2"]
    assert here.call("stop", "bert", "-t", "0").stdout == f"{second} is stopped\n"
    assert first != second


def test_a_run_that_ended_before_those_that_hosts_list_is_found(here: Here) -> None:
    for name in ("older", "newer"):
        done = here.call("run", "--force", "-n", "1", "--name", name, "train.py", "1", "0")
        assert done.returncode == 0, done.stderr
    with Fleet(Target(), str(here.code.parent / "home/.ipexctl")) as fleet:
        assert [run.about.name for run in gather_runs(fleet, newest=1)] == ["newer"]
        assert find_run(fleet, "older", newest=1).about.name == "older"
        with refused("unknown-run", "'odd'"):
            find_run(fleet, "odd", newest=1)


def test_a_host_that_is_not_reached_may_have_the_run(here: Here) -> None:
    lost = here.call("wait", "bert", "-H", "localhost,no-such-host.invalid")
    assert (lost.returncode, lost.slug) == (4, "run-host-unreachable")
    assert "no-such-host.invalid" in lost.errors[0].what
    alone = here.call("wait", "bert")
    assert (alone.returncode, alone.slug) == (2, "no-runs")
    assert "(-f, -H)" in alone.errors[0].why


def test_logs_of_a_run_that_printed_nothing_say_so(here: Here) -> None:
    (here.code / "still.py").write_text("")
    done = here.call("run", "--force", "-n", "1", "--name", "bert", "still.py")
    assert done.returncode == 0, done.stderr
    asked = here.call("logs", "bert")
    assert (asked.returncode, asked.stdout) == (0, "")
    assert asked.stderr == "no such output: bert is done\n"
    assert (
        here.call("run", "--force", "-n", "1", "--name", "loud", "train.py", "1", "0").returncode
        == 0
    )
    assert here.call("logs", "loud").stderr == ""


def test_a_pipe_in_place_of_a_file_of_the_run_is_not_waited_for(here: Here) -> None:
    done = here.call("run", "--force", "-n", "1", "--name", "bert", "train.py", "1", "0")
    assert done.returncode == 0, done.stderr
    (run,) = (here.code.parent / "home/.ipexctl/runs").iterdir()
    for file in (run / "logs/rank00000.log", run / "mark", run / "journals/localhost.sizes"):
        file.unlink()
        os.mkfifo(file)
    for words in (("ps", "-a"), ("logs", "bert"), ("why", "bert"), ("fetch", "bert", "*.py")):
        ended = here.call(*words)  # it returns, whatever it can still say
        assert "internal error" not in ended.stderr, ended


def test_a_host_without_a_part_of_the_run_is_named_and_changes_no_exit_code(here: Here) -> None:
    done = here.call("run", "--force", "-n", "1", "--name", "bert", "train.py", "1", "0")
    assert done.returncode == 0, done.stderr
    (here.code / "hosts").write_text("localhost ansible_connection=local\nno-such-host.invalid\n")
    for words in (("why", "bert"), ("stop", "bert"), ("report", "bert"), ("rm", "-y", "bert")):
        asked = here.call(*words, "-f", "hosts", "-F", "/dev/null")
        shown = asked.stdout + asked.stderr
        assert (asked.returncode, "no-such-host.invalid" in shown) == (0, True), asked


def test_the_last_line_of_a_failed_run_is_that_of_the_rank_that_failed_first(here: Here) -> None:
    (here.code / "boom.py").write_text(
        "import os, sys, time\nprint('up', flush=True)\n"
        "if os.environ['RANK'] == '1': time.sleep(2); sys.exit('boom here')\n"
        "time.sleep(4)\nsys.exit('[rank0] Connection closed by peer [127.0.0.1]:40111')\n"
    )
    run = here.call("run", "-d", "-n", "2", "--force", "boom.py").stdout.strip()
    said = here.call("wait", run)
    assert said.returncode == 1
    assert "boom here" in said.stdout
    assert "Connection closed" not in said.stdout
    why = here.call("why", run)
    assert "  rank 1 on " in why.stdout and "\n  boom here\n" in why.stdout
    assert json.loads(here.call("why", run, "--json").stdout)["last_line"] == "boom here"
    odd = here.call("logs", run, "--rank", "9")
    assert (odd.returncode, odd.slug) == (2, "unknown-rank")
    assert f"--rank 9: {run} " in odd.stderr
    assert here.call("logs", run, "-n", "0").stdout == ""


def test_logs_since_a_time_begin_with_a_whole_line_of_then(here: Here) -> None:
    run = here.call("run", "-d", "-n", "1", "--force", "train.py", "30", "0").stdout.strip()
    assert here.call("wait", run).returncode == 0
    every = here.call("logs", run).stdout.splitlines()
    folder = here.code.parent / "home/.ipexctl/runs" / run
    (sizes,) = (folder / "journals").glob("*.sizes")
    rows = [json.loads(line) for line in sizes.read_text().splitlines()]
    assert rows[0]["sizes"].keys() == {"0"}
    now = time.time()
    rows = [(now - 1000, 3), (now - 500, len("step 0\nstep 1\nst"))]  # as if it had run so long
    sizes.write_text("".join(json.dumps({"at": t, "sizes": {"0": n}}) + "\n" for t, n in rows))

    def since(text: str) -> list[str]:
        return here.call("logs", run, "--since", text).stdout.splitlines()

    assert since("1h") == every
    assert since("15m") == every[1:]
    assert since("300") == every[3:]
    os.utime(folder / "logs/rank00000.log", (now - 400, now - 400))
    assert (since("450"), since("5m")) == (every[3:], [])
    odd = here.call("logs", run, "--since", "yesterday")
    assert (odd.returncode, "--since" in odd.stderr, "'yesterday'" in odd.stderr) == (2, True, True)


def test_sizes_of_a_long_run_stay_few_and_the_newest_are_all_there(tmp_path: Path) -> None:
    history = journal.History(str(tmp_path / "sizes"))
    for second in range(10_000):
        history.add({"at": second, "sizes": {0: second}})
    there = [json.loads(line) for line in Path(history.path).read_text().splitlines()]
    assert len(there) <= journal.MOST_ROWS
    assert [row["at"] for row in there[-1000:]] == list(range(9000, 10_000))
    assert there[0]["at"] == 0


def test_logs_are_followed_to_the_end_of_a_run_and_no_line_is_lost(here: Here) -> None:
    here.start("train.py", "30", "0")
    done = here.call("logs", "@last", "-f")
    assert done.returncode == 0
    for rank in (0, 1):
        own = [f"localhost r0{rank} | step {i}" for i in range(30)]
        assert [line for line in done.stdout.splitlines() if f"r0{rank} |" in line] == own


@pytest.mark.parametrize("lines", [1, 2, 3, 10])
@pytest.mark.parametrize("end", ["", "\n"])
def test_the_last_lines_of_a_file_begin_where_they_do(tmp_path: Path, lines: int, end: str) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\n\nfour" + end)
    at = run_logs.find_last_lines(str(path), lines)
    assert path.read_text()[at:].splitlines() == ["one", "two", "", "four"][-lines:]


def test_the_plan_says_which_variables_a_settings_file_has_and_which_were_typed(here: Here) -> None:
    config = Path(here.env["HOME"]) / ".config/ipexctl/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[run]\nenv = {RANK = "7", LOCAL_RANK = "1"}\n')
    words = ("--explain", "--json", "-n", "1", "--force", "--env", "LOCAL_RANK=2", "train.py")
    done = here.call("run", *words)
    assert done.returncode == 0, done.stderr
    notes = json.loads(done.stdout)["notes"]
    named = {tuple(note.split(":")[0].split()) for note in notes if "not used" in note}
    assert named == {("run.env", "RANK"), ("--env", "LOCAL_RANK")}
