"""What ranks say of where they are, held against the plan."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from ipexctl.remote.rank import rank_wrapper
from ipexctl.run.outcome import run_events
from ipexctl.run.plan.launch_plan import RunRequest, plan
from ipexctl.run.plan.placement_check import Placed, Where
from tests import made
from tests.plan.hosts import node

HOSTS = [
    node(made.facts("node01", address="10.0.0.1")),
    node(made.facts("node02", address="10.0.0.2", nic="ens3")),
]
PLAN = plan(HOSTS, RunRequest(("train.py",), ppn=2), "r1")
RIGHT = {
    0: Where((0, 1), "eth0", ()),
    1: Where((2, 3), "eth0", ()),
    2: Where((0, 1), "ens3", ()),
    3: Where((2, 3), "ens3", ()),
}


def _notes(said: dict[int, Where]) -> list[str]:
    placed = Placed(PLAN)
    return [note for rank, where in said.items() for note in placed.add(rank, where)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({}, [], id="all is as planned"),
        pytest.param({r: Where() for r in range(4)}, [], id="nobody could tell"),
        pytest.param(
            {3: replace(RIGHT[3], cpus=(3,))},
            ["node02: rank 3 runs on CPUs 3, but the plan says 2-3"],
            id="a CPU was taken away meanwhile",
        ),
        pytest.param(
            {r: replace(RIGHT[r], nic="wlan0") for r in range(4)},
            [
                "node01: the route to 10.0.0.1 uses wlan0, but the plan says eth0",
                "node02: the route to 10.0.0.1 uses wlan0, but the plan says ens3",
            ],
            id="another way to rank 0, said once for each host",
        ),
        pytest.param(
            {1: replace(RIGHT[1], missing=("amx_tile",))},
            ["node01: no amx_tile there, which the processor is said to have"],
            id="the kernel does not give the tiles",
        ),
        pytest.param(
            {r: replace(RIGHT[r], mounted=True, missing=None) for r in range(4)},
            [
                "node[01-02]: /proc/cpuinfo is a mount (a lab, or a container): "
                "instruction sets not compared"
            ],
            id="a lab, said once for all hosts",
        ),
    ],
)
def test_what_is_not_as_planned_is_said_when_all_ranks_have_begun(changed, expected):
    assert _notes(RIGHT | changed) == expected


def test_nothing_is_said_before_the_last_rank_has_begun():
    assert _notes({rank: Where((9,)) for rank in range(3)}) == []


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, Where()),
        ("odd", Where()),
        ({"cpus": "0-3", "nic": 7, "missing": {}}, Where()),
        ({"cpus": [], "missing": []}, Where(cpus=(), missing=())),
        (
            {"cpus": [1, "x", 2], "nic": "eth0\x1b[2J", "missing": ["avx2"], "mounted": True},
            Where((1, 2), "eth0[2J", ("avx2",), mounted=True),
        ),
    ],
)
def test_odd_words_of_a_host_are_taken_for_unknown(raw, expected):
    header = {"event": "rank", "rank": 3, "started": 7, "where": raw}
    assert run_events.read("node02", frozenset({3}), header, b"") == run_events.RankStarted(
        3, expected
    )


# --- the wrapper itself ---------------------------------------------------------------------------


def test_the_script_is_on_the_cpus_that_its_wrapper_tells_of(tmp_path, monkeypatch):
    monkeypatch.setenv("IPEXCTL_RUN_ID", "r1")
    cpu = max(os.sched_getaffinity(0))
    script = "import os, json; print(json.dumps(sorted(os.sched_getaffinity(0))))"
    python = "/usr/bin/env"
    orders = {
        "argv": [python, "python3", "-c", script],
        "log": str(tmp_path / "log"),
        "cwd": str(tmp_path),
        "cpus": [cpu],
        "umask": None,
        "node": 0,
        "flags": ["no_such_flag"],
        "env": {"MASTER_ADDR": "127.0.0.1", "PATH": os.environ["PATH"]},
    }
    pid, where = rank_wrapper.start(orders)
    os.waitpid(pid, 0)
    assert json.loads((tmp_path / "log").read_text()) == where["cpus"] == [cpu]
    assert where["nic"] == "lo"
    assert where["mounted"] or where["missing"] == ["no_such_flag"]


def test_a_script_that_cannot_start_says_so_in_its_log(tmp_path):
    orders = {
        "argv": ["/no/such/python"], "log": str(tmp_path / "log"), "cwd": str(tmp_path),
        "cpus": [], "umask": None, "env": {},
    }  # fmt: skip
    pid, where = rank_wrapper.start(orders)
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 127
    assert "cannot start /no/such/python" in (tmp_path / "log").read_text()
    assert where["nic"] is None


def test_the_way_to_an_ipv6_address_is_known():
    assert rank_wrapper.placement({"env": {"MASTER_ADDR": "::1"}}, None)["nic"] == "lo"


@pytest.mark.parametrize("address", ["", "node7", "fd00::1::2", "300.1.1.1"])
def test_the_way_to_what_is_no_plain_address_is_unknown(address):
    orders = {"env": {"MASTER_ADDR": address}}
    assert rank_wrapper.placement(orders, None)["nic"] is None
