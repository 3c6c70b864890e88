"""Each situation in which a run hangs: its kind, its suspects, and what is shown of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from ipexctl.run.hang.diagnosis import Kind, diagnose
from ipexctl.run.hang.diagnosis_text import document, screen

from .looks import (
    BACKWARD,
    BUSY,
    LIB,
    MASTER,
    SITE,
    SLEEP,
    TORCH,
    WORK,
    Raw,
    assert_fits,
    call,
    called,
    calls,
    frames,
    late,
    row,
    situation,
    waits,
)

NFS = {"what": "file", "path": "/data/x.arrow", "fs": "nfs", "peer": ""}
PEER = {"what": "poll", "path": "", "fs": "", "peer": "93.184.216.34:443"}
READS = {"state": "D", "wchan": "folio_wait_bit", "syscall": [0, 7, 0, 4096], "blocked_on": NFS}
OTHERS = [waits(0), waits(1), waits(2)]
OLD = [row(rank, BACKWARD) for rank in range(3)]  # a torch that records nothing
WAIT = [LIB + "threading.py", 327, "wait"]
QUEUE = [[LIB + "queue.py", 171, "get"]]
LOADER = [
    [LIB + "selectors.py", 415, "select"],
    [LIB + "multiprocessing/connection.py", 930, "wait"],
    [LIB + "multiprocessing/queues.py", 113, "get"],
    [SITE + "torch/utils/data/dataloader.py", 1291, "_try_get_data"],
    [SITE + "torch/utils/data/dataloader.py", 725, "__next__"],
]
WORKER = [[WORK + "data.py", 9, "__getitem__"], [SITE + "torch/utils/data/fetch.py", 54, "fetch"]]
STORE = [
    [TORCH + "rendezvous.py", 199, "_create_c10d_store"],
    [TORCH + "distributed_c10d.py", 1892, "init_process_group"],
]
CONNECT = {"state": "S", "wchan": "hrtimer_nanosleep", "syscall": [230, 0, 0, 0]}


def joins(rank: int) -> Raw:
    return row(rank, frames(*STORE), **CONNECT)


def child(**more: Any) -> Raw:
    given: Raw = {"pid": 9, "name": "pt_data_worker", "state": "S", "cpu": 0.0, "frames": []}
    return given | {"exited": False} | more


def linked(rank: int, other: int, **more: Any) -> Raw:
    rows = [[f"10.0.0.{rank + 1}:40", f"10.0.0.{other + 1}:40", "ESTAB", 0, 0, 0, 0.0]]
    for i, key in enumerate(("unsent", "unread", "retransmits", "unanswered"), 3):
        rows[0][i] = more.get(key, 0)
    return waits(rank, connections=rows)


@dataclass(frozen=True)
class Case:
    name: str
    kind: Kind
    suspects: list[int]
    rows: list[Raw]
    doing: str = ""  # in the first suspect's line
    where: str = ""
    what: str = ""  # the largest group
    said: str = ""  # in `likely`
    more: Raw = field(default_factory=dict)


CASES = [
    Case(
        "a file server does not answer",
        Kind.BLOCKED_IO,
        [3],
        [*OTHERS, late(3, frames([WORK + "data.py", 88, "__next__"]), **READS)],
        doing="/data/x.arrow, state D, 0 % CPU",
        where="data.py:88 in __next__",
        what="all_reduce #412 (DDP, 4.2 MB)",
        said="node02: /data, nfs",
    ),
    Case(
        "blocked in the kernel, on what is not known",
        Kind.BLOCKED_IO,
        [3],
        [*OTHERS, late(3, state="D", wchan="io_schedule")],
        doing="io_schedule",
    ),
    Case(
        "blocked in a read inside of torch.load",
        Kind.BLOCKED_IO,
        [3],
        [*OTHERS, late(3, frames([SITE + "torch/serialization.py", 1500, "load"]), **READS)],
        where="train.py:61 in train",
    ),
    Case(
        "a pipe that has no writer",
        Kind.BLOCKED_IO,
        [3],
        [*OTHERS, late(3, syscall=[0, 5, 0, 1], wchan="pipe_read", blocked_on={"what": "pipe"})],
        doing="pipe",
    ),
    Case("sleeps", Kind.SLEEPING, [3], [*OTHERS, late(3, **SLEEP)], doing="sleeping"),
    Case(
        "sleeps, where only wchan can be read",
        Kind.SLEEPING,
        [3],
        [*OTHERS, late(3, **(SLEEP | {"syscall": None}))],
    ),
    Case(
        "sleeps in a loop until a file is there",
        Kind.SLEEPING,
        [3],
        [*OTHERS, late(3, **SLEEP, waits_in_loop=True, text="while not exists(flag):")],
        doing="while not exists(flag):",
    ),
    Case("sleeps, on aarch64", Kind.SLEEPING, [3], [*OTHERS, late(3, syscall=[115], wchan="")]),
    Case("a lock", Kind.LOCK, [3], [*OTHERS, late(3, frames(WAIT))], doing="a lock"),
    Case(
        "a lock taken with acquire(): no Python frame",
        Kind.LOCK,
        [3],
        [*OTHERS, late(3, text="lock.acquire()")],
    ),
    Case("a queue", Kind.LOCK, [3], [*OTHERS, late(3, frames(WAIT, *QUEUE))], doing="queue"),
    Case(
        "a loop that waits and never sleeps",
        Kind.SPINNING,
        [3],
        [*OTHERS, late(3, **BUSY, waits_in_loop=True, text="while not done:")],
        doing="spinning: while not done:, state R, 100 % CPU",
    ),
    Case("computes", Kind.COMPUTING, [3], [*OTHERS, late(3, **BUSY)], doing="100 % CPU"),
    Case(
        "imports modules",
        Kind.COMPUTING,
        [3],
        [
            *OTHERS,
            late(
                3,
                frames(["<frozen importlib._bootstrap>", 1, "f"], [SITE + "a.py", 1, "b"]),
                **BUSY,
            ),
        ],
        doing="importing modules",
        where="train.py:61 in train",
    ),
    Case("computes in backward", Kind.COMPUTING, [3], [*OTHERS, late(3, BACKWARD, **BUSY)]),
    Case(
        "computes in other threads",
        Kind.COMPUTING,
        [3],
        [*OTHERS, late(3, frames(WAIT), cpu=3.0)],
        doing="other threads",
    ),
    Case("stopped", Kind.STOPPED, [3], [*OTHERS, late(3, state="T", wchan="do_signal_stop")]),
    Case("stopped in the collective", Kind.STOPPED, [3], [*OTHERS, waits(3, state="T")]),
    Case("a debugger", Kind.STOPPED, [3], [*OTHERS, late(3, state="t")], doing="debugger"),
    Case(
        "two ranks call another operation",
        Kind.MISMATCH,
        [2, 3],
        [
            *(row(r, called("all_reduce"), collectives=calls(call(5))) for r in (0, 1, 4)),
            *(
                row(r, called("broadcast", 70), collectives=calls(call(5, "broadcast")))
                for r in (2, 3)
            ),
        ],
        where="train.py:70 in train",
        said="train.py:61",
        more={"world": 5},
    ),
    Case(
        "other sizes",
        Kind.MISMATCH,
        [3],
        [*OTHERS, waits(3, collectives=calls(call(412, sizes=[[512, 2]])))],
        said="[512, 2]",
    ),
    Case(
        "other dtypes",
        Kind.MISMATCH,
        [3],
        [*OTHERS, waits(3, collectives=calls(call(412, dtypes=["BFloat16"])))],
        said="BFloat16",
    ),
    Case(
        "a monitored_barrier is not recorded",
        Kind.MISMATCH,
        [0],
        [
            late(0, called("monitored_barrier", 30)),
            *(row(r, called("barrier"), collectives=calls(call(412, "barrier"))) for r in (1, 2)),
        ],
        where="train.py:30 in train",
        doing="monitored_barrier",
        more={"world": 3},
    ),
    Case(
        "groups in another order",
        Kind.MISMATCH,
        [0, 1],
        [
            row(0, called("all_reduce"), collectives=calls(call(4, group="1"), _1=[0, 1])),
            row(1, called("all_reduce", 7), collectives=calls(call(9, group="2"), _2=[0, 1])),
        ],
        more={"world": 2},
    ),
    Case(
        "both receive from each other",
        Kind.MISMATCH,
        [0, 1],
        [
            row(r, called("recv"), collectives=calls(call(1, f"nccl:recv {r}<-{1 - r}", p2p=True)))
            for r in (0, 1)
        ],
        more={"world": 2},
    ),
    Case(
        "both receive: gloo records neither",
        Kind.MISMATCH,
        [0, 1],
        [row(r, called("recv"), collectives=calls()) for r in (0, 1)],
        more={"world": 2},
    ),
    Case(
        "a chain: one waits for a rank that waits for a rank that sleeps",
        Kind.SLEEPING,
        [2],
        [
            row(0, called("all_reduce"), collectives=calls(call(4, group="1"), _1=[0, 1])),
            row(1, called("all_reduce"), collectives=calls(call(7, group="2"), _2=[1, 2])),
            row(2, frames(line=33), collectives=calls(), **SLEEP),
        ],
        where="train.py:33 in train",
        more={"world": 3},
    ),
    Case(
        "ended with exit code 0 while the others wait",
        Kind.LEFT_EARLY,
        [3],
        OTHERS,
        doing="exit code 0",
        more={"ended": {3: "exit code 0"}},
    ),
    Case(
        "killed",
        Kind.LEFT_EARLY,
        [3],
        OTHERS,
        doing="signal 9",
        more={"ended": {3: "signal 9"}},
    ),
    Case(
        "ended, and no collectives are recorded",
        Kind.LEFT_EARLY,
        [3],
        OLD,
        more={"ended": {3: "exit code 0"}},
    ),
    Case("a zombie", Kind.LEFT_EARLY, [3], [*OTHERS, late(3, state="Z")]),
    Case(
        "the others have ended, and the last one still computes",
        Kind.COMPUTING,
        [0],
        [row(0, frames(), **BUSY)],
        more={"ended": {1: "exit code 0", 2: "exit code 0", 3: "exit code 0"}},
    ),
    Case(
        "a host is silent",
        Kind.HOST_SILENT,
        [2, 3],
        [waits(0), waits(1)],
        more={"silent_hosts": (("node02", 40.0),), "cuts": (("node01 cannot reach node02", 40.0),)},
    ),
    Case(
        "a cut between two hosts",
        Kind.PARTITION,
        [],
        [*OTHERS, waits(3)],
        said="node01 cannot reach node02",
        more={"cuts": (("node01 cannot reach node02", 30.0),)},
    ),
    Case(
        "has not joined: reads a file",
        Kind.RENDEZVOUS,
        [3],
        [joins(0), joins(1), joins(2), row(3, frames(), **READS)],
        said=MASTER,
        doing="reading /data/x.arrow",
    ),
    Case("never started", Kind.RENDEZVOUS, [3], [joins(0), joins(1), joins(2)]),
    Case("all join, with a wrong address", Kind.RENDEZVOUS, [], [joins(r) for r in range(4)]),
    Case(
        "store.get() of a key that one rank has not set",
        Kind.RENDEZVOUS,
        [0],
        [
            row(0, frames(), **SLEEP),
            row(
                1,
                frames(),
                text='store.get("ready")',
                wchan="poll_schedule_timeout",
                syscall=[7, 1, 1, 0],
                blocked_on={"what": "poll", "peer": MASTER},
            ),
        ],
        more={"world": 2},
    ),
    Case(
        "a worker of the data loader was killed",
        Kind.WORKER,
        [3],
        [*OTHERS, late(3, frames(*LOADER), children=[child(exited=True, state="Z")], zombies=1)],
        doing="exited",
    ),
    Case(
        "a worker of the data loader blocks",
        Kind.WORKER,
        [3],
        [*OTHERS, late(3, frames(*LOADER), children=[child(), child(state="D", frames=WORKER)])],
        doing="state D in data.py:9 __getitem__",
        where="train.py:61 in train",
    ),
    Case(
        "a worker process that was killed, where the rank reads its queue",
        Kind.WORKER,
        [3],
        [
            *OTHERS,
            late(
                3,
                frames([LIB + "multiprocessing/queues.py", 103, "get"]),
                zombies=1,
                syscall=[0, 9],
                blocked_on={"what": "pipe", "path": "", "fs": "", "peer": ""},
            ),
        ],
        doing="exited",
    ),
    Case(
        "a subprocess",
        Kind.BLOCKED_IO,
        [3],
        [*OTHERS, late(3, frames([LIB + "subprocess.py", 2011, "_wait"]), syscall=[61, 9])],
        doing="subprocess",
    ),
    Case(
        "a server outside the run",
        Kind.OUTSIDE,
        [3],
        [
            *OTHERS,
            late(
                3,
                frames([LIB + "ssl.py", 1166, "read"], [SITE + "urllib3/connection.py", 5, "get"]),
                syscall=[0, 9],
                wchan="wait_woken",
                blocked_on={"what": "socket", "peer": "93.184.216.34:443"},
            ),
        ],
        doing="93.184.216.34:443",
    ),
    Case(
        "input()",
        Kind.OUTSIDE,
        [3],
        [*OTHERS, late(3, syscall=[0, 0, 1, 1], wchan="pipe_read", text="name = input('?')")],
        doing="input",
    ),
    Case(
        "a breakpoint",
        Kind.OUTSIDE,
        [3],
        [*OTHERS, late(3, frames([LIB + "cmd.py", 126, "cmdloop"], [LIB + "pdb.py", 1, "it"]))],
        doing="debugger",
    ),
    Case(
        "a lock file that a process outside the run holds",
        Kind.OUTSIDE,
        [0, 1, 2, 3],
        [
            row(
                r,
                frames([SITE + "filelock/_api.py", 344, "acquire"]),
                **SLEEP,
                blocked_on={"what": "file", "path": "/data/.lock"},
            )
            for r in range(4)
        ],
        doing="/data/.lock",
    ),
    Case(
        "one rank holds the lock file and computes",
        Kind.COMPUTING,
        [0],
        [
            row(0, frames(), **BUSY),
            *(
                row(r, frames([SITE + "filelock/_api.py", 1, "acquire"]), **SLEEP)
                for r in (1, 2, 3)
            ),
        ],
    ),
    Case(
        "all wait for a file server",
        Kind.OUTSIDE,
        [0, 1, 2, 3],
        [row(r, frames(), **READS) for r in range(4)],
        doing="/data/x.arrow",
    ),
    Case(
        "all poll for a flag file",
        Kind.OUTSIDE,
        [0, 1, 2, 3],
        [row(r, frames(), **SLEEP, waits_in_loop=True) for r in range(4)],
    ),
    Case("all compute", Kind.COMPUTING, [0, 1, 2, 3], [row(r, frames(), **BUSY) for r in range(4)]),
    Case("all have arrived", Kind.COLLECTIVE, [], [*OTHERS, waits(3)], said="network"),
    Case(
        "all have arrived, and one connection loses data",
        Kind.COLLECTIVE,
        [1, 2],
        [
            waits(0),
            linked(1, 2, unsent=9000, retransmits=7, unanswered=60.0),
            linked(2, 1),
            waits(3),
        ],
        said="node01 to node02",
    ),
    Case(
        "all have arrived, and a host is at one end of each bad connection",
        Kind.COLLECTIVE,
        [2],
        [
            linked(0, 2, unsent=9, unanswered=50.0),
            linked(1, 2, unsent=9, unanswered=60.0),
            linked(2, 1),
        ],
        said="node03",
        more={"world": 3, "per_host": 1},
    ),
    Case(
        "one rank has finished the collective that the others are in",
        Kind.COLLECTIVE,
        [],
        [*OTHERS, late(3, collectives=calls(call(412, done=True)), **SLEEP)],
    ),
    Case(
        "others wait for a group that is stalled",
        Kind.COLLECTIVE,
        [],
        [
            *(row(r, called("barrier"), collectives=calls(call(4, "barrier"))) for r in (0, 1)),
            *(
                row(r, called("all_reduce"), collectives=calls(call(7, group="1"), _1=[2, 3]))
                for r in (2, 3)
            ),
        ],
        said="ranks 2-3 (node02) are in",
    ),
    Case(
        "ppoll on aarch64 has the number of flock on x86-64",
        Kind.OUTSIDE,
        [3],
        [*OTHERS, late(3, syscall=[73, 1], wchan="poll_schedule_timeout", blocked_on=PEER)],
        doing="93.184.216.34:443",
    ),
    Case("an old torch: the outlier", Kind.SLEEPING, [3], [*OLD, row(3, frames(), **SLEEP)]),
    Case("an old torch: all wait alike", Kind.COLLECTIVE, [], [*OLD, row(3, BACKWARD)]),
    Case(
        "an old torch: another function",
        Kind.MISMATCH,
        [3],
        [*(row(r, called("all_reduce")) for r in range(3)), row(3, called("broadcast", 9))],
    ),
    Case(
        "FSDP2 is not the user's code",
        Kind.LOCK,
        [3],
        [
            *(
                row(
                    r,
                    frames(
                        [TORCH + "fsdp/_fully_shard/_fsdp_param_group.py", 280, "wait_for_unshard"],
                        [SITE + "lightning/pytorch/loops/fit_loop.py", 455, "advance"],
                        [SITE + "accelerate/accelerator.py", 2500, "backward"],
                    ),
                )
                for r in range(3)
            ),
            row(3, frames(WAIT)),
        ],
        where="train.py:61 in train",
    ),
    Case(
        "DeepSpeed's communication",
        Kind.SLEEPING,
        [3],
        [
            *(row(r, frames([SITE + "deepspeed/comm/comm.py", 1, "barrier"])) for r in range(3)),
            row(3, frames(), **SLEEP),
        ],
        what="barrier",
    ),
    Case(
        "work.wait() has no frame",
        Kind.SLEEPING,
        [1],
        [
            row(0, frames(), collectives=calls(call(412))),
            late(1, **SLEEP),
        ],
        what="all_reduce #412 (4.2 MB)",
        more={"world": 2},
    ),
    Case(
        "an asynchronous collective is open, and the main thread sleeps before the next",
        Kind.SLEEPING,
        [3],
        [
            *(waits(r, 413) for r in range(3)),
            row(3, frames(), collectives=calls(call(412)), **SLEEP),
        ],
    ),
    Case(
        "two causes: what explains more is first",
        Kind.BLOCKED_IO,
        [3, 2],
        [waits(0), waits(1), late(2, **BUSY), late(3, **READS)],
    ),
    Case(
        "no stacks, old torch: by /proc alone",
        Kind.BLOCKED_IO,
        [3],
        [*(row(r) for r in range(3)), row(3, **READS)],
    ),
    Case("no stacks, all idle", Kind.UNKNOWN, [0, 1, 2, 3], [row(r) for r in range(4)]),
    Case("no look of one rank", Kind.UNKNOWN, [3], OTHERS),
    Case("no looks at all", Kind.UNKNOWN, [], []),
    Case("one rank", Kind.SLEEPING, [0], [row(0, frames(), **SLEEP)], more={"world": 1}),
    Case("it moves", Kind.MOVING, [], [*OTHERS, waits(3)], more={"quiet": None}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_situation_is_told(case: Case) -> None:
    given = situation(case.rows, **case.more)
    found = diagnose(given)
    assert (found.kind, [s.rank for s in found.suspects]) == (case.kind, case.suspects)
    assert 0 < len(found.headline) <= 100
    first = found.suspects[0] if found.suspects else None
    assert case.doing in (first.doing if first else "")
    assert not case.where or (first and first.where == case.where)
    assert not case.what or found.groups[0].what == case.what
    assert case.said in found.likely
    assert_fits(screen(found, given, 80), 80)
    assert_fits(screen(found, given, 60), 60)
    assert json.loads(json.dumps(document(found)))["kind"] == case.kind.value
