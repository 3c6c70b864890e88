"""What `run --explain` shows."""

from __future__ import annotations

import json
import re

import pytest

from ipexctl.errors import InputError
from ipexctl.run.command.plan_text import plan_document, plan_lines
from ipexctl.run.gather_plan import Planned
from ipexctl.run.plan.launch import RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.plan.port_plan import read_ports
from tests.cli import ipexctl
from tests.plan.conftest import Shape
from tests.plan.hosts import SHAPES, node, on_network


def _planned(shape: Shape, machines: dict[str, str], *, ccl: bool = False, **ask) -> Planned:
    facts = [on_network(shape(m), name, i) for i, (name, m) in enumerate(machines.items(), 1)]
    made = make_launch_plan(
        [node(f, ccl=ccl) for f in facts], RunRequest(("train.py",), **ask), "r1"
    )
    return Planned(made, tuple(facts[: len(made.hosts)]))


def _text(planned: Planned) -> str:
    return "\n".join(line.plain for line in plan_lines(planned))


def test_equal_hosts_are_listed_once_and_every_variable_has_its_reason(shape):
    hosts = {"node01": "2 x 8, SMT", "node02": "2 x 8, SMT", "node03": "holes"}
    shown = _text(_planned(shape, hosts, ccl=True, env=(("HF_TOKEN", "secret"),)))
    assert (
        shown
        == """\
6 ranks on 3 hosts, Intel MPI, ccl, master 10.0.0.1:29500

node[01-02]: 2 ranks on each, 7 threads per rank, interface eth0
  rank 0,2: CPUs 0-6, communication on 7, memory of node 0 first
  rank 1,3: CPUs 8-14, communication on 15, memory of node 1 first

node03: 2 ranks, 3 threads per rank, interface eth0
  rank 4: CPUs 1,3-4, communication on 5, memory of node 0 first
  rank 5: CPUs 8-9,12, communication on 15, memory of node 1 first

Variables of the ranks
  OMP_NUM_THREADS=7                   one per core of the rank, 1 more for
                                      communication (node[01-02])
  OMP_NUM_THREADS=3                   one per core of the rank, 1 more for
                                      communication (node03)
  GLOO_SOCKET_IFNAME=eth0             other hosts connect to this interface
  FI_PROVIDER=tcp                     for MPI and ccl; works on every network
  FI_TCP_IFACE=eth0                   on another interface, libfabric may hang
  CCL_WORKER_COUNT=1                  communication threads per rank
  CCL_ATL_TRANSPORT=ofi               the same for every MPI
  CCL_KVS_IFACE=eth0                  on another interface, oneCCL may wait 120
                                      s
  CCL_WORKER_AFFINITY=7,15            no rank computes there (node[01-02])
  CCL_WORKER_AFFINITY=5,15            no rank computes there (node03)
  IPEXCTL_BACKEND=ccl                 oneccl-bind-pt 2.7.0+cpu is installed
  PYTHONUNBUFFERED=1                  print lines as they are written
  HF_TOKEN                            yours, with --env or run.env
  Each rank also gets its place in the run: RANK, WORLD_SIZE, LOCAL_RANK,
  LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, GROUP_RANK, NODE_RANK,
  GROUP_WORLD_SIZE, ROLE_NAME, ROLE_RANK, ROLE_WORLD_SIZE, LOCAL_SIZE,
  TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_MAX_RESTARTS,
  LT_DEVICES, LT_NUM_NODES, TORCHELASTIC_ERROR_FILE.

Variables of MPI's programs, too
  I_MPI_PIN=0                         ipexctl pins the ranks itself, so MPI must
                                      not

note: ranks on node03 have 3 threads, others up to 7: each step waits for the
      slowest
note: --env HF_TOKEN: looks like a secret; --secret-env HF_TOKEN keeps it out of
      plans and logs

Nothing was started. A free port is chosen again when it runs."""
    )


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_fits_eighty_columns(shape, name):
    planned = _planned(shape, {"node01": name}, ports=(40000, 40100))
    assert [line for line in _text(planned).splitlines() if len(line) > 80] == []


def test_a_variable_of_the_settings_file_is_called_by_its_key(shape):
    env = (("OMP_NUM_THREADS", "4"), ("RANK", "1"), ("IPEXCTL_BACKEND", "gloo"))
    names = frozenset({"OMP_NUM_THREADS", "RANK", "IPEXCTL_BACKEND"})
    planned = _planned(shape, {"node01": "one node"}, env=env, configured=names)
    assert not [note for note in planned.plan.notes if "--env" in note]
    assert "run.env OMP_NUM_THREADS=4 is used, the plan had 8" in planned.plan.notes
    assert dict(planned.plan.hosts[0].reasons)["OMP_NUM_THREADS"].startswith("yours, with run.env")
    assert dict(planned.plan.hosts[0].reasons)["IPEXCTL_BACKEND"] == "yours, with run.env"


def test_json_has_the_whole_plan_and_no_value_that_only_the_user_knows(shape):
    env = (("HF_TOKEN", "hush"), ("OMP_NUM_THREADS", "4"))
    made = plan_document(_planned(shape, {"node01": "one node"}, env=env))
    assert "hush" not in json.dumps(made)
    (host,) = made["hosts"]
    assert host["ranks"] == [
        {"rank": 0, "local_rank": 0, "cpus": [*range(8)], "communication": [], "memory_node": 0}
    ]
    variables = {v["name"]: (v["value"], v["why"]) for v in host["variables"]}
    assert variables["OMP_NUM_THREADS"] == ("4", "yours, with --env, instead of 8")
    assert variables["HF_TOKEN"] == (None, "yours, with --env or run.env")
    assert made["notes"] == [
        "--env OMP_NUM_THREADS=4 is used, the plan had 8",
        "--env HF_TOKEN: looks like a secret; --secret-env HF_TOKEN keeps it out of plans and logs",
    ]


# --- the command line -----------------------------------------------------------------------------


def test_a_variable_in_place_of_an_excluded_host_matches_none():
    done = ipexctl("run", "-x", "OMP_NUM_THREADS", "-H", "node01", __file__)
    (error,) = done.errors
    assert (done.returncode, error.slug) == (2, "no-host-matches") and "node01" in error.hint


@pytest.mark.parametrize(
    ("ports", "slug", "numbers"),
    [
        ("40000", "ports-not-a-range", ["40000", "40000", "40100"]),
        ("40000-40001", "ports-too-few", ["40000", "40001", "2"]),
        ("80-9000", "ports-not-a-range", ["80", "9000", "1024", "65535"]),
    ],
)
def test_ports_that_no_run_can_use_are_refused(ports, slug, numbers):
    with pytest.raises(InputError) as e:
        read_ports(ports)
    assert (e.value.slug, re.findall(r"\d+", e.value.what)) == (slug, numbers)
