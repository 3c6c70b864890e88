"""Plans for real machines that others recorded, where their records are beside this checkout.

What each is, tests/facts/test_recorded.py says; the plans were checked against the raw files.
"""

from __future__ import annotations

import pytest

from ipexctl.run.plan.launch import RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from tests.plan import text
from tests.plan.hosts import node, on_network

CASES = {
    # 0-3,5-6,12-15 are ours and online: six nodes of 2, 2, 1, 1, 2, 2 cores, too unequal to keep to
    "16amd64-8n2c-cpusets": """\
n1 lo threads=1
  r0 0-1 node 0
  r1 2-3 node 1
  r2 5-6
  r3 12-13 node 6
  r4 14 node 7
  r5 15 node 7""",
    # 7 cores have a thread online, socket by socket: 0,4 1,6,10 3,7 are in sockets of one node
    "16em64t-4s2c2t-offlines": """\
n1 lo threads=7
  r0 0,4,1,6,10,3,7 node 0""",
    # 0-5 are ours: 4 cores of node 0, 2 of node 1
    "32amd64-4s2n4c-cgroup2": """\
n1 lo threads=3
  r0 0-2 node 0
  r1 3-5""",
    # CPUs go round the four nodes
    "40intel64-2g2n4c+pcilocality": """\
n1 lo threads=10
  r0 0,4,8,12,16,20,24,28,32,36 node 0
  r1 1,5,9,13,17,21,25,29,33,37 node 1
  r2 2,6,10,14,18,22,26,30,34,38 node 2
  r3 3,7,11,15,19,23,27,31,35,39 node 3""",
    # one fast core
    "arm-A510-A710-A715-X3": """\
n1 lo threads=1
  r0 7""",
    # 16 CPUs in 4 nodes, of which no memory is recorded
    "vmware_fpe": """\
n1 lo threads=4
  r0 0-3
  r1 4-7
  r2 8-11
  r3 12-15""",
    # nodes of 16, 8 and 8 cores are too unequal to keep to: 32 = 11 + 11 + 10
    "x86_64-64cpu": """\
n1 lo threads=10
  r0 0,4,8,12,16,20,24,28,2,6,10
  r1 14,18,22,26,30,1,5,9,13,17,21
  r2 25,29,3,7,11,15,19,23,27,31""",
}


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_machine_gets_the_plan_that_was_checked_by_hand(recorded, name):
    host = node(on_network(recorded[name], "n1"))
    shown = text.of(make_launch_plan([host], RunRequest(("train.py",)), "r1")).partition("\n")[2]
    assert shown == CASES[name]
