"""A run that goes on without who started it, on this machine, with a stand-in for torch."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
import time

import pytest

from ipexctl.common.waiting import wait_until
from tests.run.test_ps_local import LONG, Here
from tests.run.test_ps_local import here as here  # noqa: PLC0414  a fixture

RUN = ("run", "-n", "2", "--force")


def on_a_terminal(
    here: Here, *words: str, command: tuple[str, ...] = RUN
) -> tuple[subprocess.Popen[bytes], int]:
    """It has the terminal as its own, so that what is typed there reaches it. Returns when a rank
    has printed."""
    ours, theirs = pty.openpty()

    def own() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    run = subprocess.Popen(
        here.argv(*command, "--ui", "plain", *words), stdin=theirs,
        stdout=theirs, stderr=theirs, cwd=here.code, env=here.env, preexec_fn=own,
    )  # fmt: skip
    os.close(theirs)
    read_until(ours, b"step 1")
    return run, ours


def read_until(terminal: int, word: bytes) -> bytes:
    said = b""
    while word not in said:
        data = os.read(terminal, 1 << 16)
        assert data, said
        said += data
    return said


def goes_on(here: Here) -> bool:
    (row,) = here.listed()
    line = int(row["last_line"].split()[1])
    time.sleep(0.5)
    (later,) = here.listed()
    return (row["state"], row["hosts_alive"]) == ("running", ["localhost"]) and int(
        later["last_line"].split()[1]
    ) > line


def slug(done: subprocess.CompletedProcess[str]) -> str:
    """Of the error that ended a command with --json."""
    return str(json.loads(done.stdout)["errors"][0]["slug"])


def test_a_detached_run_is_listed_and_waited_for(here: Here) -> None:
    done = here.call("run", "-d", "-n", "2", "--force", "--name", "bert", "train.py", "60", "0")
    assert done.returncode == 0
    (row,) = here.listed()
    assert done.stdout == f"{row['run_id']}\n"  # what ranks print meanwhile is on stderr
    for command in ("attach", "stop"):
        assert f"  ipexctl {command} bert" in done.stderr
    assert here.call("wait", "bert").returncode == 0
    (row,) = here.listed("-a")
    assert (row["state"], row["exit_code"], row["ranks_ended_well"]) == ("done", 0, 2)


def test_data_of_a_detached_run_is_in_use_until_it_ends(here: Here) -> None:
    (here.code / "set").mkdir()
    (here.code / "set/one").write_text("1")
    assert here.call("data", "push", "set").returncode == 0
    started = here.call("run", "-d", "--data", "set", "-n", "1", *LONG)
    assert started.returncode == 0, started.stderr
    removed = here.call("data", "rm", "set", "-y", "--json")
    (kept,) = json.loads(removed.stdout)["hosts"]
    assert (removed.returncode, kept["state"], kept["slug"]) == (1, "failed", "dataset-in-use")
    assert here.call("stop", "@last", "-t", "0").returncode == 0
    assert here.call("data", "rm", "set", "-y").returncode == 0


def test_its_own_time_limit_ends_a_detached_run(here: Here) -> None:
    assert here.call("run", "-d", "--timeout", "2", "-n", "1", *LONG).returncode == 0
    assert here.call("wait", "@last").returncode == 124


@pytest.mark.parametrize("how", ["quit", "hangup", "kill"])
def test_on_a_terminal_a_run_outlives_its_command(here: Here, how: str) -> None:
    run, terminal = on_a_terminal(here, *LONG)
    if how == "quit":
        os.write(terminal, b"\x1c")  # Ctrl-\
        said = read_until(terminal, b"ipexctl stop ")
        assert b"continues in the background" in said
    elif how == "hangup":
        os.close(terminal)
    else:
        run.kill()
    code = run.wait(30)
    assert code == (-signal.SIGKILL if how == "kill" else 0)
    assert goes_on(here)


def test_attach_names_the_run_as_the_command_that_started_it_does(here: Here) -> None:
    assert here.call("run", "-d", "--name", "bert", "-n", "1", *LONG).returncode == 0
    attach, terminal = on_a_terminal(here, command=("attach",))
    os.write(terminal, b"\x1c")  # Ctrl-\
    assert b"ipexctl attach bert" in read_until(terminal, b"ipexctl stop bert")
    assert attach.wait(30) == 0


def test_with_die_with_me_a_run_ends_with_its_terminal(here: Here) -> None:
    run, _ = on_a_terminal(here, "--die-with-me", *LONG)
    run.kill()
    run.wait(30)
    assert wait_until(lambda: not here.listed(), 15, 0.2)
    (row,) = here.listed("-a")
    assert (row["state"], row["cause"]) == (
        "failed", "localhost: the connection to ipexctl ended, and the run ends with its command",
    )  # fmt: skip


def test_without_a_terminal_a_run_ends_with_its_command(here: Here) -> None:
    run = here.start(*LONG)
    run.kill()
    assert wait_until(lambda: not here.listed(), 15, 0.2)


@pytest.mark.parametrize(("more", "said"), [
    (("--die-with-me",), "-d and --die-with-me cannot be combined"),
    (("--fetch", "*.pt"), "-d cannot be combined with --fetch or --outputs"),
    (("--outputs", "out"), "-d cannot be combined with --fetch or --outputs"),
])  # fmt: skip
def test_what_cannot_be_with_d_is_refused(here: Here, more: tuple[str, ...], said: str) -> None:
    done = here.call("run", "-d", *more, "-n", "1", *LONG)
    assert (done.returncode, said in done.stderr) == (2, True)
    assert here.listed("-a") == []


def test_files_of_a_detached_run_are_fetched_when_somebody_asks(here: Here) -> None:
    (here.code / "out").mkdir()
    (here.code / "out/keep").write_text("")
    script = "import os; open('out/model.pt' + os.environ['RANK'], 'w').write('w')\n"
    (here.code / "save.py").write_text(script)
    refused = here.call("run", "-d", "--fetch", "out/*.pt", "save.py")
    assert "ipexctl fetch NAME 'out/*.pt'" in refused.stderr
    run = here.call("run", "-d", "-n", "2", "--force", "save.py").stdout.strip()
    assert here.call("wait", run).returncode == 0
    done = here.call("fetch", run, "out/*.pt*")
    outputs = f".ipexctl/runs/{run}/outputs"
    assert (done.returncode, done.stdout) == (0, f"outputs: {outputs} (2 files, 2 bytes)\n")
    assert (here.code / outputs / "out/model.pt1").read_text() == "w"
    again = json.loads(here.call("fetch", run, "out", "--json").stdout)
    assert (again["files"], again["outputs"]) == (3, f"{here.code}/{outputs}-2")
    first = json.loads(here.call("fetch", run, "out/*.pt*", "-o", "results", "--json").stdout)
    assert (first["outputs"], first["files"], first["fetched_bytes"]) == (
        f"{here.code}/results", 2, 2,
    )  # fmt: skip
    (here.code / "results/out/model.pt0").write_text("older")
    assert here.call("fetch", run, "out/*.pt*", "--dest", "results").returncode == 0
    assert (here.code / "results/out/model.pt0").read_text() == "w"
    assert here.call("fetch", run, "out", "-o", "save.py").returncode == 2
    none = here.call("fetch", run, "model.pt", "--json")
    assert (none.returncode, json.loads(none.stdout)["files"]) == (1, 0)
    outside = here.call("fetch", run, "../*", "--json")
    assert (outside.returncode, slug(outside)) == (2, "fetch-pattern-outside")
    assert here.call("rm", run, "-y").returncode == 0
    gone = here.call("fetch", run, "out", "--json")
    assert (gone.returncode, slug(gone)) == (2, "no-runs")
