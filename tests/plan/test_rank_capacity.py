"""More ranks than hosts can hold are refused, with the numbers, before anything is sent."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.base.retry_command import complete_hint
from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError
from ipexctl.facts.facts import Facts
from ipexctl.facts.memory_and_swap_facts import MemFacts
from ipexctl.local.run_options import RunOptions
from ipexctl.project.send_project import Project
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.run_plan import make_run_plan
from ipexctl.run.run_script import Script
from tests import made
from tests.pastable import why_not_pastable
from tests.plan.hosts import node, on_network

GIB = 1 << 30


def machine(name: str, i: int = 1, *, cores: int = 4, free: int | None = 12 * GIB) -> Facts:
    facts = on_network(made.facts(name, cpus=made.cpu(cores=cores)), name, i)
    return replace(facts, mem=MemFacts(16 * GIB, free, 0, 0, None))


def planned(*machines: Facts, force: bool = False, **asked: int) -> LaunchPlan:
    script = Script(Project(Path()), ("train.py",))
    options = RunOptions("train.py", force=force, **asked)
    return make_run_plan([node(f) for f in machines], options, script, {}, "r1")


def refused(*machines: Facts, **asked: int) -> InputError:
    with pytest.raises(InputError) as e:
        planned(*machines, **asked)
    return e.value


def numbers(text: str) -> tuple[str, ...]:
    """The hosts of a reason, and the numbers in it with their units."""
    hosts, _, reason = text.partition(": ")
    return (hosts, *re.findall(r"[\d.]*\d(?: [KMG]iB)?", reason))


def test_200_ranks_on_four_cores_are_refused():
    error = refused(machine("node01", free=None), n=200)
    assert (error.slug, error.exit_code) == ("rank-count-too-big", 2)
    assert "200" in error.what and "node01" in error.what
    assert numbers(error.why) == ("node01", "200", "4", "16", "4")
    assert error.hint.startswith("-n 4 -ppn 4 ") and "--force" in error.hint


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("-n 100", "-n 12"),
        ("-np 100 -ppn 50", "-np 8 -ppn 4"),
        ("--np=100 --nproc_per_node=64", "--np=8 --nproc_per_node=4"),
        ("-ppn 64", "-ppn 4"),
        ("-n 4 -ppn 1", "-n 3 -ppn 1"),
        ("-n4 --ppn 1", "-n3 --ppn 1"),
    ],
)
def test_the_command_with_as_many_ranks_as_fit_is_offered_and_does(typed, offered):
    machines = [machine(f"node0{i}", i, free=None) for i in (1, 2, 3)]
    error = refused(*machines, **counts(typed))
    complete_hint(error, Typed(("run", *typed.split()), ("train.py", "-n", "100")))
    command, _, _ = error.hint.splitlines()[0].partition("   #")
    assert command == f"ipexctl run {offered} train.py -n 100"
    assert why_not_pastable(command) == ""
    planned(*machines, **counts(offered))  # is not refused


def counts(words: str) -> dict[str, int]:
    """The numbers of a command line, as options of a run."""
    per_host = re.search(r"(?:ppn|nproc_per_node)[ =]?(\d+)", words)
    ranks = re.search(r"-np?[ =]?(\d+)", words)
    found = {"ppn": per_host, "n": ranks}
    return {name: int(match[1]) for name, match in found.items() if match}


def test_what_memory_cannot_hold_is_refused():
    error = refused(machine("node01", cores=64, free=2 * GIB), n=20)
    assert numbers(error.why) == ("node01", "20", "5.0 GiB", "2.0 GiB", "8", "256 MiB")
    assert error.hint.startswith("-n 8 -ppn 8 ")


def test_the_number_that_is_suggested_is_taken():
    hosts = [machine("a", 1, cores=8), machine("b", 2, cores=2), machine("c", 3, free=GIB)]
    error = refused(*hosts, ppn=50)
    assert "150" in error.what and "a,b,c" in error.what
    words = error.hint.split()
    assert planned(*hosts, n=int(words[1]), ppn=int(words[3])).world_size == 3 * 2


@pytest.mark.parametrize("n", [1, 4, 16])
def test_a_few_ranks_per_core_are_started(n):
    assert planned(machine("node01"), n=n).world_size == n


def test_one_rank_and_unknown_memory_are_never_too_much():
    assert planned(machine("node01", free=1 << 20), n=1).world_size == 1
    assert planned(machine("node01", cores=64, free=None), n=200).world_size == 200


def test_force_starts_them_and_says_so():
    plan = planned(machine("node01"), n=200, force=True)
    assert plan.world_size == 200
    assert ("node01", "200", "4", "16", "4") in map(numbers, plan.notes)


def test_a_quota_of_cpu_time_counts_as_cores():
    facts = machine("node01", cores=64, free=None)
    error = refused(replace(facts, cpu=replace(facts.cpu, quota=1.5)), n=9)
    assert numbers(error.why) == ("node01", "9", "2", "8", "4")


def test_hosts_in_the_same_trouble_share_a_line():
    error = refused(*(machine(f"node0{i}", i, free=None) for i in (1, 2, 3)), n=300)
    assert numbers(error.why) == ("node[01-03]", "100", "4", "16", "4")
    assert error.hint.startswith("-n 12 -ppn 4 ")
