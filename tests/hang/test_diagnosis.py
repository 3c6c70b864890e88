"""Each situation in which a run hangs: its kind, its suspects, and what is shown of it."""

from __future__ import annotations

import pytest

from ipexctl.run.hang.hang_report import Kind

from .looks import (
    BACKWARD,
    BUSY,
    MASTER,
    OLD,
    OTHERS,
    QUEUE,
    READS,
    SITE,
    SLEEP,
    WAIT,
    WORK,
    Case,
    assert_told,
    call,
    called,
    calls,
    frames,
    joins,
    late,
    row,
    waits,
)

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
        doing="while not exists(flag)",
    ),
    Case("sleeps, on aarch64", Kind.SLEEPING, [3], [*OTHERS, late(3, syscall=[115], wchan="")]),
    Case("a lock", Kind.LOCK, [3], [*OTHERS, late(3, frames(WAIT))], doing="another thread"),
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
        doing="spinning: while not done, state R, 100 % CPU",
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
                frames([SITE + "a.py", 2, "f"], [SITE + "a.py", 9, "<module>"]),
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
        "other sizes of one rank, after a mismatch that gloo let pass",
        Kind.MISMATCH,
        [1],
        [
            row(
                r,
                called("all_gather_into_tensor"),
                collectives=calls(
                    call(4, "broadcast", done=True, sizes=[[9 + r % 2]]),
                    call(5, "_allgather_base", sizes=[[512 if r == 1 else 1024]]),
                ),
            )
            for r in range(4)
        ],
        said="rank 1 (node01) called _allgather_base #5 of [512]",
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
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_situation_is_told(case: Case) -> None:
    assert_told(case)
