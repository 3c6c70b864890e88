"""Whole plans, checked by hand: each row says why its plan is right.

`r0 0-54 comm 55 node 0` is rank 0: the CPUs on which it computes, the one of its communication
thread, and the NUMA node whose memory it takes first. `!` is a note for the user.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ipexctl.run.plan.launch import RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from tests.plan import text
from tests.plan.conftest import Shape
from tests.plan.hosts import node, on_network


@dataclass(frozen=True)
class Case:
    hosts: tuple[str, ...]
    expected: str
    why: str
    ask: dict[str, Any] = field(default_factory=dict)
    ccl: bool = False
    slots: tuple[int, ...] = ()
    preload: tuple[str, ...] = ()


def case(*hosts: str, expected: str, why: str, ccl: bool = False, **ask: Any) -> Case:
    slots, preload = ask.pop("slots", ()), ask.pop("preload", ())
    return Case(hosts, expected, why, ask, ccl, slots, preload)


LO = "gloo 127.0.0.1:29500\nn1 lo threads="
CCL = """
  FI_PROVIDER=tcp
  FI_TCP_IFACE=lo
  CCL_WORKER_COUNT=1
  CCL_ATL_TRANSPORT=ofi
  CCL_KVS_IFACE=lo
  CCL_WORKER_AFFINITY="""
ETH = "\n  FI_PROVIDER=tcp\n  FI_TCP_IFACE=eth0"

CASES = {
    # --- shapes ---
    "one core": case(
        "one core", expected=LO + "1\n  r0 0 node 0", why="the smallest machine there is"
    ),
    "one node, SMT": case(
        "one node", expected=LO + "8\n  r0 0-7 node 0",
        why="8 cores have threads 0-7 first and 8-15 second; the second ones add nothing to AMX",
    ),
    "two sockets, SMT": case(
        "two sockets with SMT", expected=LO + "56\n  r0 0-55 node 0\n  r1 56-111 node 1",
        why="a rank per NUMA node, 56 cores each; 112-223 are second threads",
    ),
    "SMT off": case(
        "2 x 8, SMT off", expected=LO + "8\n  r0 0-7 node 0\n  r1 8-15 node 1",
        why="the same as with SMT, since second threads are not used there either",
    ),
    "threads numbered core by core": case(
        "CPUs numbered thread by thread",
        expected=LO + "4\n  r0 0,2,4,6 node 0\n  r1 8,10,12,14 node 1",
        why="0 and 1 are one core here, as on many virtual machines: never both",
    ),
    "nodes take turns": case(
        "nodes take turns", expected=LO + "4\n  r0 0,2,4,6 node 0\n  r1 1,3,5,7 node 1",
        why="some firmware numbers CPUs round the sockets: a rank stays in its own",
    ),
    "sub-NUMA clusters and HBM": case(
        "Xeon Max 9480, SNC4, flat",
        expected=LO + "14\n" + "\n".join(
            f"  r{n} {14 * n}-{14 * n + 13} node {n}" for n in range(8)
        ),
        why="16 nodes, of which 8-15 have memory and no CPU: those get no rank",
    ),
    "three nodes per socket": case(
        "Granite Rapids 6980P, SNC3",
        expected=LO + """42
  r0 0-42 node 0
  r1 43-85 node 1
  r2 86-127 node 2
  r3 128-170 node 3
  r4 171-213 node 4
  r5 214-255 node 5""",
        why="128 cores are 43 + 43 + 42: nobody crosses a node, and all have 42 threads",
    ),
    "16 nodes": case(
        "16 nodes",
        expected=LO + "2\n" + "\n".join(f"  r{n} {2 * n}-{2 * n + 1} node {n}" for n in range(16)),
        why="32 cores in 16 nodes",
    ),
    "efficiency cores": case(
        "performance and efficiency cores", expected=LO + "6\n  r0 0,2,4,6,8,10 node 0",
        why="6 fast cores with SMT; 12-19 are slower, and every step would wait for them",
    ),
    "no topology": case(
        "no topology in sysfs", expected=LO + "4\n  r0 0-3",
        why="cores as /proc/cpuinfo tells them: 4-7 are second threads",
    ),
    "nodes that contradict themselves": case(
        "nodes that contradict themselves", expected=LO + "4\n  r0 0-3",
        why="CPU 2 is said to be in two nodes: then nothing of it is believed",
    ),
    "a node without memory": case(
        "node 1 has no memory", expected=LO + "8\n  r0 0-7 node 0\n  r1 8-15",
        why="CPUs are CPUs, but there is no memory to prefer in node 1",
    ),
    # --- not all of the machine is ours ---
    "offline CPUs": case(
        "offline CPUs", expected=LO + "6\n  r0 0-2,4-5,7", why="3 and 6 are offline"
    ),
    "a cpuset of one node": case(
        "Sapphire Rapids, a container on CPUs 0-13", expected=LO + "14\n  r0 0-13 node 0",
        why="node 1 has no CPU of ours: one rank",
    ),
    "a cpuset with holes": case(
        "holes", expected=LO + "4\n  r0 1,3-5 node 0\n  r1 8-9,12,15 node 1",
        why="granted 1,3-5 (17 and 19 are second threads of 1 and 3) and 8,9,12,15",
    ),
    "second threads alone": case(
        "second threads alone", expected=LO + "8\n  r0 16-23 node 0\n  r1 24-31 node 1",
        why="where only second threads are granted, they are the cores",
    ),
    "nodes that are too unequal": case(
        "a node and a crumb", expected=LO + "4\n  r0 0-4 node 0\n  r1 5-8",
        why="8 cores and 1: in halves. One rank on the single core would hold the other up. "
        "Rank 1 has cores of both nodes, so no memory is preferred",
    ),
    "a quota below one node": case(
        "quota of 6",
        expected=LO + """6
  r0 0-15
! n1: its control group allows 6 CPUs' worth of time: 6 of 16 threads per rank""",
        why="6 CPUs' worth of time do not fill one node of 8: one rank. It may run on all 16 "
        "cores, as others in their own control groups take the same time on the same cores",
    ),
    "a quota over two nodes": case(
        "quota of 12",
        expected=LO + """6
  r0 0-7 node 0
  r1 8-15 node 1
! n1: its control group allows 12 CPUs' worth of time: 6 of 8 threads per rank""",
        why="12 CPUs' worth take two nodes of 8, 6 threads in each",
    ),
    "a quota and a cpuset": case(
        "cgroup v2",
        expected=LO + """1
  r0 0-3
! n1: its control group allows 1.5 CPUs' worth of time: 1 of 4 threads per rank""",
        why="two threads would be stopped a quarter of the time",
    ),
    "more ranks than the quota": case(
        "quota of one and a half",
        expected=LO + """1
  r0 0-7 node 0
  r1 8-15 node 1
! n1: its control group allows 1.5 CPUs' worth of time: 1 of 8 threads per rank
! n1: 2 ranks must share 1.5 CPUs' worth of time""",
        why="asked for, so done, and said", ppn=2,
    ),
    # --- requests ---
    "two ranks per node": case(
        "2 x 8, SMT",
        expected=LO + "4\n  r0 0-3 node 0\n  r1 4-7 node 0\n  r2 8-11 node 1\n  r3 12-15 node 1",
        why="four ranks fit into two nodes", ppn=4,
    ),
    "three ranks on two nodes": case(
        "2 x 8, SMT", expected=LO + "5\n  r0 0-5 node 0\n  r1 6-10\n  r2 11-15 node 1",
        why="one has to cross; 16 = 6 + 5 + 5, and all compute with 5 threads", n=3,
    ),
    "one rank on two nodes": case(
        "2 x 8, SMT", expected=LO + "16\n  r0 0-15", why="both nodes, memory by first touch", ppn=1
    ),
    "more ranks than cores": case(
        "one core",
        expected=LO + "1\n  r0 0\n  r1 0\n"
        "! WARNING: n1: 2 ranks share 1 core, each gets 50% of a core; -ppn 1 fits",
        why="asked for by -ppn: that is the only way to get there", ppn=2,
    ),
    # --- several hosts ---
    "hosts that differ": case(
        "2 x 8, SMT", "one node", "one core",
        expected=f"""gloo 10.0.0.1:29500
n1 eth0 threads=8
  r0 0-7 node 0
  r1 8-15 node 1{ETH}
n2 eth0 threads=4
  r2 0-3 node 0
  r3 4-7 node 0{ETH}
n3 eth0 threads=1
  r4 0 node 0{ETH}
! -n 5 is not a multiple of -ppn 2: n3 has 1 of them
! ranks on n3 have 1 thread, others up to 8: each step waits for the slowest""",
        why="each host by its own cores; what is odd about it is said", n=5, ppn=2,
    ),
    "slots": case(
        "2 x 8, SMT", "one node",
        expected=f"""gloo 10.0.0.1:29500
n1 eth0 threads=8
  r0 0-7 node 0
  r1 8-15 node 1{ETH}
n2 eth0 threads=8
  r2 0-7 node 0{ETH}""",
        why="host:2 and host:1 are the ranks of each", slots=(2, 1),
    ),
    "slots of some hosts": case(
        "2 x 8, SMT", "one node",
        expected=f"""gloo 10.0.0.1:29500
n1 eth0 threads=5
  r0 0-5 node 0
  r1 6-10
  r2 11-15 node 1{ETH}
n2 eth0 threads=8
  r3 0-7 node 0{ETH}
! ranks on n1 have 5 threads, others up to 8: each step waits for the slowest""",
        why="n1:3 is taken at its word, n2 holds one by its one NUMA node", slots=(3, 0), n=4,
    ),
    "a host too many": case(
        "one node", "one core",
        expected="gloo 127.0.0.1:29500\nn1 lo threads=8\n  r0 0-7 node 0\n! without ranks: n2",
        why="one rank needs one host, and no network", n=1,
    ),
    # --- ccl ---
    "ccl": case(
        "two sockets with SMT",
        expected="ccl 127.0.0.1:29500\nn1 lo threads=55\n  r0 0-54 comm 55 node 0\n"
        "  r1 56-110 comm 111 node 1" + CCL + "55,111",
        why="the last core of each rank's own part communicates; 55 compute", ccl=True,
    ),
    "ccl with two workers": case(
        "2 x 8, SMT",
        expected=("ccl 127.0.0.1:29500\nn1 lo threads=6\n  r0 0-5 comm 6-7 node 0\n"
        "  r1 8-13 comm 14-15 node 1" + CCL + "6,7,14,15").replace("COUNT=1", "COUNT=2"),
        why="the count is the user's, the cores follow it", ccl=True,
        env=(("CCL_WORKER_COUNT", "2"),),
    ),
    "ccl in a cpuset with holes": case(
        "holes",
        expected="ccl 127.0.0.1:29500\nn1 lo threads=3\n  r0 1,3-4 comm 5 node 0\n"
        "  r1 8-9,12 comm 15 node 1" + CCL + "5,15",
        why="5 and 15 are granted; oneCCL's own choice, the last cores of all, may not be",
        ccl=True,
    ),
    "ccl with a quota": case(
        "quota of 6",
        expected="ccl 127.0.0.1:29500\nn1 lo threads=5\n  r0 0-14 comm 15" + CCL + "15\n"
        "! n1: its control group allows 6 CPUs' worth of time: 5 of 15 threads per rank",
        why="the communication thread spins and takes one of the 6 CPUs' worth", ccl=True,
    ),
    "ccl, a core for each rank": case(
        "Hyper-V guest with 4 vCPUs",
        expected="ccl 127.0.0.1:29500\nn1 lo threads=1\n  r0 0 comm 2 node 0\n"
        "  r1 1 comm 3 node 0" + CCL + "2,3",
        why="no core to spare, but second threads: 2 belongs to core 0, 3 to core 1",
        ccl=True, ppn=2,
    ),
    "ccl on one core": case(
        "one core",
        expected="ccl 127.0.0.1:29500\nn1 lo threads=1\n  r0 0 comm 0 node 0" + CCL + "0\n"
        "! n1: too few cores: communication threads share those on which ranks compute",
        why="nothing to set apart; said", ccl=True,
    ),
    "ccl with an affinity of the user's": case(
        "2 x 8, SMT",
        expected="ccl 127.0.0.1:29500\nn1 lo threads=8\n  r0 0-7 node 0\n  r1 8-15 node 1"
        + CCL + "3,24", why="the user's cores, so none are set apart", ccl=True,
        env=(("CCL_WORKER_AFFINITY", "3,24"),),
    ),
    "ccl's bindings, but gloo asked for": case(
        "2 x 8, SMT", expected=LO + "8\n  r0 0-7 node 0\n  r1 8-15 node 1",
        why="without ccl there is no communication thread", ccl=True,
        env=(("IPEXCTL_BACKEND", "gloo"),),
    ),
    # --- variables ---
    "libiomp5 and tcmalloc": case(
        "one node",
        expected=LO + """8
  r0 0-7 node 0
  LD_PRELOAD=/home/trainer/.ipexctl/envs/abc/lib/libiomp5.so:/home/trainer/.ipexctl/envs/abc/lib/libtcmalloc.so
  KMP_BLOCKTIME=1
  KMP_AFFINITY=granularity=fine,compact,1,0""",
        why="they are in the environment; one allocator, and KMP_* is for libiomp5 alone",
        preload=("libiomp5.so", "libjemalloc.so", "libtcmalloc.so"),
    ),
    "libiomp5 under a quota": case(
        "quota of 12",
        expected=LO + """6
  r0 0-7 node 0
  r1 8-15 node 1
  LD_PRELOAD=/home/trainer/.ipexctl/envs/abc/lib/libiomp5.so
  KMP_BLOCKTIME=1
! n1: its control group allows 12 CPUs' worth of time: 6 of 8 threads per rank""",
        why="6 threads on 8 cores: the kernel may move them to those that others leave free",
        preload=("libiomp5.so",),
    ),
    "jemalloc": case(
        "one core",
        expected=LO + """1
  r0 0 node 0
  LD_PRELOAD=/home/trainer/.ipexctl/envs/abc/lib/libjemalloc.so
  MALLOC_CONF=oversize_threshold:1,background_thread:true,metadata_thp:auto""",
        why="with what Intel advises for it; no KMP_* without libiomp5",
        preload=("libjemalloc.so",),
    ),
    "the user's own variables": case(
        "one node",
        expected="""gloo node7:4000
n1 lo threads=3
  r0 0-7 node 0
  MASTER_ADDR=node7
  MASTER_PORT=4000
  HF_HOME=/data/hf
! --env RANK: not used, as it differs in each rank
! --env MASTER_ADDR=node7 is used, the plan had 127.0.0.1
! --env MASTER_PORT=4000 is used, the plan had 29500
! --env OMP_NUM_THREADS=3 is used, the plan had 8""",
        why="what we set gives way, and is told; what we do not set is passed on without a word",
        env=(
            ("OMP_NUM_THREADS", "3"), ("MASTER_ADDR", "node7"), ("MASTER_PORT", "4000"),
            ("RANK", "7"), ("HF_HOME", "/data/hf"),
        ),
    ),
    "the user's own paths": case(
        "one core",
        expected=LO + """1
  r0 0 node 0
  PATH=/opt/bin
  I_MPI_PIN=1
  I_MPI_ROOT=/home/trainer/.ipexctl/envs/abc
! --env I_MPI_PIN=1 is used, the plan had 0
! --env PATH=/opt/bin is used, the plan had /home/trainer/.ipexctl/envs/abc/bin:/usr/bin:/bin""",
        why="the host's own variables and MPI's give way, too; what is the same needs no word",
        env=(
            ("PATH", "/opt/bin"), ("I_MPI_PIN", "1"),
            ("I_MPI_ROOT", "/home/trainer/.ipexctl/envs/abc"),
        ),
    ),
    "a path that is longer than a note": case(
        "one core",
        expected=LO + f"""1
  r0 0 node 0
  I_MPI_ROOT=/{"x" * 200}
! --env I_MPI_ROOT=/{"x" * 96}... is used, the plan had /home/trainer/.ipexctl/envs/abc""",
        why="it is cut in the note alone",
        env=(("I_MPI_ROOT", "/" + "x" * 200),),
    ),
}  # fmt: skip


def _plan(shape: Shape, asked: Case) -> str:
    slots = asked.slots or (0,) * len(asked.hosts)
    nodes = [
        node(
            on_network(shape(name), f"n{i}", i), slots=slots[i - 1], ccl=asked.ccl,
            preload=asked.preload,
        )
        for i, name in enumerate(asked.hosts, 1)
    ]  # fmt: skip
    return text.of(make_launch_plan(nodes, RunRequest(("train.py",), **asked.ask), "r1"))


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_the_one_that_was_checked_by_hand(shape, name):
    assert _plan(shape, CASES[name]) == CASES[name].expected, CASES[name].why
