"""What is tried, from the facts of the hosts and of the first trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipexctl.base.option import options_of
from ipexctl.facts.core_pinning import place_ranks
from ipexctl.local.run_options import RunOptions
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.tune.tune_space import (
    Profile,
    SettingChange,
    Setup,
    TrialRanks,
    left_out,
    search_space,
    setup_of,
)
from tests import made

SETUP = Setup(
    hosts=2, ppn=1, cores=8, smt=1, quota=False, nic="eth0", backend="gloo", env={}, preload="",
    variables=frozenset(), allocators=(), options=frozenset(options_of(RunOptions)), n=None,
)  # fmt: skip
SEEN = TrialRanks(2, frozenset({"libgomp"}), "default")


def tried(setup: Setup = SETUP, seen: TrialRanks = SEEN, *allow: str) -> dict[str, list[dict]]:
    return {
        dimension.name: [{**dict(c.env), **dict(c.options)} for c in dimension.candidates]
        for dimension in search_space(setup, seen, allow)
    }


def setup(*allocators: tuple[str, ...]) -> Setup:
    """Of two hosts with 4 cores and 8 threads each; `allocators`: those of each host."""
    cpus = made.cpu(cores=4, threads=2)
    nodes = [
        PlannedHost(made.host(n), made.facts(n, cpus=cpus), made.prepared()) for n in ("n1", "n2")
    ]
    planned = make_launch_plan(nodes, RunRequest(("t.py",)), "r1")
    prepared = [
        replace(node.prepared, allocators=own) for node, own in zip(nodes, allocators, strict=True)
    ]
    facts = [node.facts for node in nodes]
    return setup_of(planned, facts, prepared, {"A": "1"}, ("ppn",), None)


def test_facts_of_a_plan_become_a_setup() -> None:
    found = setup((), ())
    assert (found.hosts, found.ppn, found.cores, found.smt) == (2, 1, 4, 2)
    assert (found.nic, found.backend, found.quota, found.env) == ("eth0", "gloo", False, {"A": "1"})


def test_only_allocators_that_every_host_has_are_tried() -> None:
    tc, je = "/usr/lib64/libtcmalloc.so.4", "/usr/lib64/libjemalloc.so.2"
    found = setup((tc, je), (je,))
    assert found.allocators == (je,)
    assert [c["LD_PRELOAD"] for c in tried(found)["allocator"]] == [je]


def test_the_computed_number_of_threads_is_tried_first_where_the_user_set_another() -> None:
    first = tried(replace(SETUP, env={"OMP_NUM_THREADS": "1"}))["threads"][0]
    assert first == {"OMP_NUM_THREADS": None}
    assert {"OMP_NUM_THREADS": None} not in tried()["threads"]


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, ["4", "7"]),
        ({"smt": 2}, ["16", "4", "7"]),
        ({"smt": 2, "quota": True}, ["4", "7"]),
        ({"cores": 1}, None),
        ({"cores": 2}, ["1"]),
        ({"cores": 32}, ["16", "31", "8"]),
        ({"cores": None}, None),
    ],
)
def test_thread_counts_follow_the_cores_of_a_rank(more, counts) -> None:
    found = tried(replace(SETUP, **more)).get("threads")
    assert (found and [c["OMP_NUM_THREADS"] for c in found]) == counts


def test_what_changes_training_is_tried_only_if_allowed() -> None:
    setup = replace(SETUP, options=SETUP.options | {"compress"})
    assert "ranks" not in tried(setup)
    (offered,) = (one for one in search_space(setup, SEEN) if one.name == "compression")
    assert offered.offered and [dict(c.options)["compress"] for c in offered.candidates] == ["bf16"]
    assert "compression" not in tried(replace(setup, hosts=1)), "it crosses no network"
    found = tried(setup, SEEN, "batch", "numerics")
    assert [c["compress"] for c in found["compression"]] == ["bf16", "fp16"]
    assert not any(one.offered for one in search_space(setup, SEEN, ("batch", "numerics")))
    assert [c["ppn"] for c in found["ranks"]] == [2]
    said = " ".join(left_out(setup, SEEN))
    assert "--allow batch" in said
    assert "--allow" not in " ".join(left_out(setup, SEEN, ("batch", "numerics")))


def test_what_is_measured_though_it_is_not_used_is_not_called_left_out() -> None:
    said = {hosts: " ".join(left_out(replace(SETUP, hosts=hosts), SEEN)) for hosts in (1, 2)}
    assert ["--allow numerics" in said[hosts] for hosts in (1, 2)] == [True, False]
    assert "compression" in tried(replace(SETUP, hosts=2)) and "compression" not in tried(
        replace(SETUP, hosts=1)
    )


def test_compression_needs_the_option_of_run() -> None:
    setup = replace(SETUP, options=SETUP.options - {"compress"})
    assert "compression" not in tried(setup, SEEN, "numerics")


def test_ranks_per_host_take_a_typed_total_along() -> None:
    found = tried(replace(SETUP, n=4, ppn=2), SEEN, "batch")["ranks"]
    assert found == [{"n": 8, "ppn": 4}, {"n": 2, "ppn": 1}]


@pytest.mark.parametrize("more", [{"hosts": 1}, {"nic": ""}, {"backend": "ccl"},
                                  {"env": {"GLOO_SOCKET_IFNAME": "eth1"}}])  # fmt: skip
def test_gloo_connections_need_gloo_and_one_interface_name(more) -> None:
    assert [c["GLOO_SOCKET_IFNAME"] for c in tried()["connections"]] == [
        "eth0,eth0", "eth0,eth0,eth0,eth0",
    ]  # fmt: skip
    assert "connections" not in tried(replace(SETUP, **more))


def test_buckets_are_tried_where_the_script_leaves_them_to_ddp() -> None:
    assert "bucket" in tried()
    assert "bucket" not in tried(SETUP, replace(SEEN, ddp=""))
    assert "bucket" not in tried(SETUP, replace(SEEN, ddp="script"))


def test_settings_of_an_openmp_runtime_are_tried_only_where_it_is_loaded() -> None:
    gnu = {name for c in tried()["openmp"] for name in c}
    assert gnu == {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
    intel = replace(SEEN, libraries=frozenset({"libiomp5"}))
    bound = replace(SETUP, variables=frozenset({"KMP_AFFINITY"}))
    assert {name for c in tried(bound, intel)["openmp"] for name in c} == {
        "KMP_BLOCKTIME", "KMP_AFFINITY",
    }  # fmt: skip
    assert "openmp" not in tried(SETUP, replace(SEEN, libraries=frozenset()))


def test_another_allocator_keeps_the_openmp_runtime_that_is_preloaded() -> None:
    setup = replace(
        SETUP, preload="/e/lib/libiomp5.so:/e/lib/libtcmalloc.so",
        allocators=("/e/lib/libtcmalloc.so", "/usr/lib64/libjemalloc.so.2"),
    )  # fmt: skip
    seen = replace(SEEN, libraries=frozenset({"libiomp5", "libtcmalloc"}))
    found = tried(setup, seen)["allocator"]
    assert [c["LD_PRELOAD"] for c in found] == [
        "/e/lib/libiomp5.so:/usr/lib64/libjemalloc.so.2", "/e/lib/libiomp5.so",
    ]  # fmt: skip
    assert "allocator" not in tried(replace(setup, env={"LD_PRELOAD": ""}), seen)


def test_a_profile_replaces_and_removes_variables() -> None:
    change = SettingChange("x", (("A", "2"), ("B", None)))
    profile = Profile().replaced("d", change)
    assert profile.applied_to({"A": "1", "B": "1", "C": "1"}) == {"A": "2", "C": "1"}
    assert profile.replaced("d", SettingChange("y")).applied_to({"A": "1"}) == {"A": "1"}
    assert (str(Profile()), str(profile)) == ("baseline", "x")


def test_a_rank_with_more_threads_than_cores_gets_both_threads_of_each() -> None:
    facts = made.facts(cpus=made.cpu(cores=4, threads=2))
    assert [p.cpus for p in place_ranks(facts, 2).parts] == [(0, 1), (2, 3)]
    assert [p.cpus for p in place_ranks(facts, 2, 0, 2).parts] == [(0, 1), (2, 3)]
    wide = place_ranks(facts, 2, 0, 4)
    assert [p.cpus for p in wide.parts] == [(0, 1, 4, 5), (2, 3, 6, 7)]
    assert wide.threads == 2, "what the plan computes stays"
