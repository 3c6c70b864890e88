"""Which known failure the end of a run names, where its last lines leave a choice."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from ipexctl.explain.known_failures import known_failures
from ipexctl.run.outcome.first_cause import known_cause
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.outcome.run_result import HostEnd, RunResult
from ipexctl.run.plan.launch import LaunchPlan

PLAN = LaunchPlan((), "10.0.0.1", 29500, ("train.py",), (), "")
FAILED = RankEnd(0, "node01", code=1)
GONE = "RuntimeError: Connection closed by peer [10.0.0.2]:1"
TRACEBACK = "Traceback (most recent call last):"


def ended(*tail: str, ends: tuple[RankEnd, ...] = (), victims: tuple[RankEnd, ...] = ()):
    cause = "rank 0 on node01 exited with code 1"
    result = RunResult(
        "r1", 1, "rank-failed", 1.0, PLAN, (), first=FAILED, tail=tail, cause=cause,
        ends=(FAILED, *ends), victims=victims,
    )  # fmt: skip
    return known_cause(result, known_failures)


def test_what_the_script_has_survived_is_not_why_it_ended():
    survived = "warning: ModuleNotFoundError(\"No module named 'wandb'\") - logging off"
    assert ended(survived, TRACEBACK, "  File", "KeyError: 'train_loss'") is None
    found = ended(survived, TRACEBACK, "ModuleNotFoundError: No module named 'pandas'")
    assert found and found.slug == "module-missing" and "pandas >> req" in found.fix
    found = ended(TRACEBACK, "ModuleNotFoundError: No module named 'pandsa'")
    assert found and found.fix == "correct the name in the import (did you mean 'pandas'?)"


def test_what_a_library_printed_before_the_traceback_still_counts():
    line = "internal_kvs.cpp:606 kvs_init: connection time (120) >= limit (120)"
    found = ended(line, TRACEBACK, "  File", "RuntimeError: oneCCL: something")
    assert found and found.slug == "ccl-rendezvous"


def test_what_no_run_ends_of_is_told_of_no_failed_run():
    slow = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default"
    assert ended(slow, "gives up") is None
    found = ended(slow, "RuntimeError: DefaultCPUAllocator: can't allocate memory")
    assert found and found.slug == "out-of-memory"


def test_a_peer_that_had_ended_well_did_other_numbers_of_steps():
    done, broken = RankEnd(1, "node02", code=0), RankEnd(1, "node02", code=1)
    found = ended(TRACEBACK, GONE, ends=(done,))
    assert found and "different numbers" in found.why and "join()" in found.fix
    victim = ended(TRACEBACK, GONE, ends=(broken,), victims=(broken,))
    assert victim and "different numbers" not in victim.why


def test_the_fix_names_the_host_that_failed():
    found = ended(TRACEBACK, "OSError: [Errno 24] Too many open files")
    assert found and "on node01" in found.fix, found
    assert "that host" not in found.fix
    lost = HostEnd("node02", None, "")
    cause = "node02 was lost: no message from it for 30 s"
    result = RunResult("r1", 1, "host-lost", 1.0, PLAN, (lost,), cause=cause, lost_host="node02")
    found = known_cause(result, known_failures)
    assert found and found.fix.startswith("ping -c 3 node02; ssh node02 uptime; "), found


def test_the_lines_that_were_set_aside_are_the_same_as_before_the_patterns():
    folder = Path(__file__).parent
    found = hashlib.sha256(gzip.decompress((folder / "held_out.toml.gz").read_bytes())).hexdigest()
    assert found == (folder / "held_out.sha256").read_text().split()[0]
