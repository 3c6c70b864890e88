"""IPEXCTL_SHARE: who asks for it, what each rank gets, and what is kept of a measurement."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import pytest

from ipexctl.common.speed_answers import HostSpeed
from ipexctl.local.run_options import RunOptions
from ipexctl.project.send_project import Project
from ipexctl.run.plan.launch import RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.run_plan import add_shares
from ipexctl.run.run_script import Script
from ipexctl.run.shares import measure_speeds
from ipexctl.run.shares.host_shares import compute_batch_shares
from ipexctl.user_code.source import SHARE
from ipexctl.user_code.source_reader import read_source
from tests import made
from tests.plan.hosts import node

ASKS = 'import os\nshare = float(os.environ.get("IPEXCTL_SHARE", "1"))\n'
CASES = {  # ranks of each host, speeds, the share of one rank of each host
    "equal": ({"a": 1, "b": 1}, {"a": 20, "b": 20}, {"a": 1 / 2, "b": 1 / 2}),
    "equal within noise": ({"a": 1, "b": 1}, {"a": 20, "b": 17}, {"a": 1 / 2, "b": 1 / 2}),
    "one is slow": ({"a": 1, "b": 1}, {"a": 30, "b": 10}, {"a": 3 / 4, "b": 1 / 4}),
    "two ranks on the fast one": ({"a": 2, "b": 1}, {"a": 40, "b": 20}, {"a": 1 / 3, "b": 1 / 3}),
    "two ranks on the slow one": ({"a": 1, "b": 2}, {"a": 30, "b": 10}, {"a": 3 / 4, "b": 1 / 8}),
    "one host": ({"a": 3}, {}, {"a": 1 / 3}),
    "one is not measured": ({"a": 1, "b": 2}, {"a": 30}, {"a": 1 / 3, "b": 1 / 3}),
}


@pytest.mark.parametrize(("ranks", "speeds", "expected"), CASES.values(), ids=CASES)
def test_shares_follow_the_speeds_and_add_to_one(ranks, speeds, expected):
    found = compute_batch_shares(ranks, speeds)
    assert {host: share.value for host, share in found.items()} == pytest.approx(expected)
    assert math.isclose(sum(found[host].value * count for host, count in ranks.items()), 1)
    assert all(share.why for share in found.values())


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (ASKS, True),
        ('import os\nos.getenv("IPEXCTL_SHARE")\n', True),
        ('from os import environ as e\nNAME = "IPEXCTL_SHARE"\nprint(e[NAME])\n', True),
        ('import os\nos.environ["IPEXCTL_SHARE"] = "1"\n', False),
        ('import os as o\no.putenv("IPEXCTL_SHARE", "1")\no.getenv("IPEXCTL_SHARE")\n', True),
        ('"""Reads no IPEXCTL_SHARE."""\n# IPEXCTL_SHARE\n', False),
    ],
)  # fmt: skip
def test_a_script_asks_by_reading_the_variable(text, asks):
    assert read_source("train.py", text, main=True).reads == ({SHARE} if asks else set())


# --- a run ----------------------------------------------------------------------------------------


def two():
    facts = [made.facts(f"node0{i}", address=f"10.0.0.{i}") for i in (1, 2)]
    return [node(replace(one, boot_id=f"boot {one.host}")) for one in facts]


def script(text: str, tmp_path) -> Script:
    found = read_source("train.py", text, main=True)
    return Script(Project(tmp_path), ("train.py",), sources=(found,))


@pytest.fixture
def measured(monkeypatch, tmp_path) -> list[int]:
    """How many hosts were measured each time."""
    asked: list[int] = []

    def measure(fleet, sites):
        asked.append(len(sites))
        return {"node01": 30.0, "node02": 10.0}, []

    monkeypatch.setattr(measure_speeds, "_measure_speeds", measure)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return asked


def values(nodes) -> list[tuple[str | None, str]]:
    made_of = make_launch_plan(nodes, RunRequest(("train.py",), ppn=1), "r1")
    name = "IPEXCTL_SHARE"
    return [(dict(h.rank_env).get(name), dict(h.reasons).get(name, "")) for h in made_of.hosts]


def test_the_plan_has_each_share_with_its_reason_and_a_second_run_measures_nothing(
    measured, tmp_path
):
    for _ in range(2):
        nodes = add_shares(None, two(), RunOptions("train.py"), script(ASKS, tmp_path), print)
        (fast, why), (slow, _) = values(nodes)
        assert (fast, slow) == ("0.75", "0.25") and "30 of 40 GFLOP/s" in why
    assert measured == [2]


@pytest.mark.parametrize(
    ("text", "env"), [("print()\n", {}), (ASKS, {"IPEXCTL_SHARE": "0.5"})], ids=["asks not", "own"]
)
def test_nothing_is_measured_where_nobody_asks_or_the_user_sets_it(measured, tmp_path, text, env):
    nodes, options = two(), RunOptions("train.py", env=env)
    assert add_shares(None, nodes, options, script(text, tmp_path), print) == nodes
    assert measured == [] and values(nodes) == [(None, "")] * 2


def test_other_placement_or_another_boot_is_measured_again(measured, tmp_path):
    nodes, asks = two(), script(ASKS, tmp_path)
    booted = [replace(n, facts=replace(n.facts, boot_id=f"new {n.host.name}")) for n in nodes]
    for hosts, options in (
        (nodes, RunOptions("train.py", ppn=1)),
        (nodes, RunOptions("train.py", ppn=2)),
        (booted, RunOptions("train.py", ppn=1)),
    ):
        add_shares(None, hosts, options, asks, print)
    assert measured == [2, 2, 2]


def test_a_host_that_cannot_be_measured_is_noted_and_nothing_is_kept(monkeypatch, tmp_path):
    failed = lambda *_: ({"node01": 30.0}, ["node02: no torch"])  # noqa: E731
    monkeypatch.setattr(measure_speeds, "_measure_speeds", failed)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    notes: list[str] = []
    options = RunOptions("train.py")
    nodes = add_shares(None, two(), options, script(ASKS, tmp_path), notes.append)
    assert [value for value, _ in values(nodes)] == ["0.5", "0.5"]
    assert len(notes) == 1 and "node02: no torch" in notes[0]
    assert not (tmp_path / "state").exists()


# --- on a host ------------------------------------------------------------------------------------

TORCH = """
import contextlib, time
float32 = 0
inference_mode = contextlib.nullcontext
def ones(*sizes, dtype): return None
def mm(a, b): time.sleep(0.01)
def set_num_threads(count): pass
__version__ = "0"
"""


def asked(python: str) -> dict[str, object]:
    return {"python": python, "threads": 1, "cpus": [0], "seconds": 0.2}


def test_a_host_begins_when_it_is_told_and_reports_its_mean_speed(agent, tmp_path):
    (tmp_path / "torch.py").write_text(TORCH)
    python = tmp_path / "python3"  # -I ignores PYTHONPATH
    python.write_text(f'#!/bin/sh\nshift\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    events = []

    def told(frame):
        events.append(frame.header["kind"])
        agent.feed(number, {"go": True})

    number = agent.start("facts.read_speed.speed", asked(str(python)))
    done = agent.wait(number, on_event=told).done
    speed = done.read(HostSpeed)
    assert events == ["TorchLoaded"] and speed.status == "ok"
    assert speed.fp32 and 0.1 < speed.fp32 < 3.4  # a product of 256 x 256 in 0.01 s or more


def test_a_host_without_torch_says_so(agent):
    done = agent.call("facts.read_speed.speed", asked("/usr/bin/python3")).done
    assert done["status"] == "no-torch"
