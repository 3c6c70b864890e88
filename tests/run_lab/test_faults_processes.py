"""What a run says of ranks and of MPI's programs that end as they should not. Real lab hosts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from tests.run_lab.test_run_faults import SLEEP, up

NONE_LEFT = [0, 0, 0]


def rank_1(does: str) -> str:
    return f"import os, sys\nif os.environ['RANK'] == '1':\n    {does}\n{SLEEP}"


def ended(result) -> tuple[int, str, str]:
    assert [h["survivors"] for h in result["hosts"]] == NONE_LEFT
    known = result["known"]["slug"] if result["known"] else ""
    return result["exit_code"], result["cause"], known


# --- the script ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("does", "code", "how", "known"),
    [
        ("import ctypes; ctypes.string_at(0)", 139, "was ended by signal 11 (SIGSEGV)",
         "segmentation-fault"),
        ("import lexer_of_nowhere", 1, "exited with code 1", "module-missing"),
    ],
)  # fmt: skip
def test_one_rank_that_fails_is_named_with_what_is_known_of_it(runner, does, code, how, known):
    run = runner.start("-n", "3", str(runner.script(rank_1(does))))
    assert ended(run.finish()) == (code, f"rank 1 on node02 {how}", known)
    assert runner.left(run.run_id) == {}


def test_arguments_that_a_script_refuses_fail_all_ranks_in_the_same_way(runner):
    script = runner.script(
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--epochs', type=int)\np.parse_args()\n"
    )
    refused = runner.plain("-n", "3", str(script), "--epochs", "three")
    assert (refused.returncode, "invalid int value: 'three'" in refused.stderr) == (2, True)
    result = runner.start("--force", "-n", "3", str(script), "--epochs", "three").finish()
    code, cause, known = ended(result)
    assert (code, known) == (2, "wrong-arguments")
    assert (result["first"]["code"], cause.split()[1]) == (2, str(result["first"]["rank"]))
    assert len(result["same"]) == 2
    assert result["victims"] == []


# --- kill -9 -------------------------------------------------------------------------------------
# Kills of a wrapper are soak tests: MPI kills its peers within 50 ms, and a busy machine may report
# one of them first.


ALL_UP = "while 3 of 3 ranks were running"


@pytest.mark.parametrize(
    ("host", "victim", "code", "cause"),
    [
        ("node02", "[s]cript.py", 137, "rank 1 on node02 was ended by signal 9 (SIGKILL)"),
        pytest.param(
            "node02", "[r]ank.pyc$", 137, "rank 1 on node02 was killed", marks=pytest.mark.soak
        ),
        ("node01", "[m]piexec.hydra", 122, f"mpirun ended with code 137 (SIGKILL) {ALL_UP}"),
        ("node02", "[h]ydra_pmi_proxy", 122,
         f"MPI's daemon on node02 was ended by signal 9 (SIGKILL) {ALL_UP}"),
    ],
    ids=["rank", "wrapper", "mpirun", "daemon"],
)  # fmt: skip
def test_what_was_killed_is_the_cause_and_nothing_stays(runner, host, victim, code, cause):
    run = runner.start("-n", "3", str(runner.script(SLEEP)))
    up(run, 3)
    kill = f"kill -9 $(pgrep -o -f '{victim}')"
    assert runner.lab.run_in(host, ["/bin/sh", "-c", kill]).returncode == 0
    assert ended(run.finish()) == (code, cause, "killed")
    assert runner.left(run.run_id) == {}


@pytest.mark.soak
def test_a_wrapper_that_was_killed_is_the_cause_though_its_peers_are_heard_of_first(runner):
    script = (
        "import os, socket, time\n"
        "rank, at = os.environ['RANK'], int(os.environ['MASTER_PORT'])\n"
        "if rank == '0':\n"
        "    socket.create_server(('', at)).accept()[0].recv(1)\n"
        "    print('Failed to recv, got 0 bytes. Connection was likely closed.', flush=True)\n"
        "    os._exit(1)\n"
        "while rank == '1':\n"
        "    try: peer = socket.create_connection((os.environ['MASTER_ADDR'], at))\n"
        "    except OSError: time.sleep(0.1)\n"
        "    else: os.kill(os.getppid(), 9)\n"
        "time.sleep(100)\n"
    )
    run = runner.start("-n", "3", str(runner.script(script)))
    assert ended(run.finish()) == (137, "rank 1 on node02 was killed", "killed")
    assert runner.left(run.run_id) == {}


# --- memory --------------------------------------------------------------------------------------


def trainers(lab, host: str) -> list[int]:
    """Processes of the login there, as this machine numbers them."""
    space, found = Path(f"/proc/{lab.hosts[host].pid}/ns/pid").stat().st_ino, []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "ns/pid").stat().st_ino == space and folder.stat().st_uid:
                found.append(int(folder.name))
    return found


@contextmanager
def limited(pids: list[int], size: int) -> Iterator[None]:
    """A control group of version 1 around them, as containers have one."""
    group = Path(f"/sys/fs/cgroup/memory/ipexctl-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(size))
    except OSError as e:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group of version 1 can be made here: {e}")
    try:
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), 30, 0.05)
        group.rmdir()


def test_a_rank_that_the_kernel_kills_at_a_memory_limit_is_told_as_that(runner):
    grows = (
        "print('up', flush=True)\nimport os, time\nkept = []\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
        "while True: kept.append(b'x' * (4 << 20))\n"
    )
    run = runner.start("-n", "3", str(runner.script(rank_1("exec(" + repr(grows) + ")"))))
    up(run, 3)
    with limited(trainers(runner.lab, "node02"), 256 << 20):
        work = f"/home/trainer/.ipexctl/runs/{run.run_id}/work"
        runner.lab.run_in("node02", ["touch", f"{work}/go"])
        result = run.finish()
    code, cause, known = ended(result)
    assert (code, known) == (137, "out-of-memory")
    assert cause.startswith("rank 1 on node02 ")
    assert "(SIGKILL)" in cause and "(OOM)" in cause
