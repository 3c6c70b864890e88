"""Plans for real machines that others recorded, where their records are beside this checkout.

What each is, tests/facts/test_recorded.py says; the plans were checked against the raw files.
"""

from __future__ import annotations

import pytest

from ipexctl.run.plan.launch import RunRequest
from ipexctl.run.plan.launch_plan import plan
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
    # 6 fast cores with two threads; 12-19 are slower
    "20em64t-hybrid-1p6c2t+2ca4co1t": """\
n1 lo threads=6
  r0 0,2,4,6,8,10 node 0""",
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
    # 8 nodes of 8; pairs of this AMD share less than a core
    "64amd64-4s2n4ca2co": """\
n1 lo threads=8
  r0 0-7 node 0
  r1 8-15 node 1
  r2 16-23 node 2
  r3 24-31 node 3
  r4 32-39 node 4
  r5 40-47 node 5
  r6 48-55 node 6
  r7 56-63 node 7""",
    # one rank, as the nodes contradict themselves; socket by socket
    "8em64t-2s2ca2c-buggynuma": """\
n1 lo threads=8
  r0 0,2,4,6,1,3,5,7""",
    # one fast core
    "arm-A510-A710-A715-X3": """\
n1 lo threads=1
  r0 7""",
    # 80 CPUs, 40 cores, 4 nodes; 40-79 are second threads
    "memorysidecaches": """\
n1 lo threads=10
  r0 0,4,8,12,16,20,24,28,32,36 node 0
  r1 1,5,9,13,17,21,25,29,33,37 node 1
  r2 2,6,10,14,18,22,26,30,34,38 node 2
  r3 3,7,11,15,19,23,27,31,35,39 node 3""",
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
    # 8 nodes of 6 cores; 48-95 are second threads
    "x86_64-epyc_7451": """\
n1 lo threads=6
  r0 0-5
  r1 6-11
  r2 12-17
  r3 18-23
  r4 24-29
  r5 30-35
  r6 36-41
  r7 42-47""",
}


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_machine_gets_the_plan_that_was_checked_by_hand(recorded, name):
    host = node(on_network(recorded[name], "n1"))
    shown = text.of(plan([host], RunRequest(("train.py",)), "r1")).partition("\n")[2]
    assert shown == CASES[name]
