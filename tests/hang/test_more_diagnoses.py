"""More situations in which a run hangs, or seems to."""

from __future__ import annotations

import pytest

from ipexctl.run.hang.hang_report import Kind

from .looks import (
    BACKWARD,
    BUSY,
    LIB,
    LOADER,
    MASTER,
    OLD,
    OTHERS,
    PEER,
    READS,
    SITE,
    SLEEP,
    TORCH,
    WAIT,
    WORKER,
    Case,
    assert_told,
    call,
    called,
    calls,
    child,
    frames,
    joins,
    late,
    linked,
    row,
    waits,
)

CASES = [
    Case(
        "without CPU time",
        Kind.UNKNOWN,
        [3],
        [waits(0), waits(1), waits(2), late(3, frames(), state="R", wchan="0", syscall=None)],
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
        [*OTHERS, late(3, frames(*LOADER), children=[child(exited=True, state="Z")])],
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
                syscall=[0, 9],
                blocked_on={"what": "pipe", "path": "", "fs": "", "peer": ""},
                children=[child(exited=True, state="Z")],
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
    Case(
        "as many ranks called the one as the other: who is wrong is not known",
        Kind.MISMATCH,
        [0, 1],
        [
            row(0, called("all_gather"), collectives=calls(call(412, "all_gather"))),
            row(1, called("barrier"), collectives=calls(call(412, "barrier"))),
        ],
        more={"world": 2},
    ),
    Case(
        "one rank alone calls new_group",
        Kind.RENDEZVOUS,
        [3],
        [*OTHERS, late(3, frames([TORCH + "distributed_c10d.py", 5581, "new_group"]))],
        said="also those that are not in the group",
    ),
    Case(
        "a data loader worker computes",
        Kind.COMPUTING,
        [3],
        [*OTHERS, late(3, frames(*LOADER), children=[child(state="R", frames=WORKER)])],
        doing="which computes",
    ),
    Case(
        "no look of the other host yet, whose rank is not known either",
        Kind.UNKNOWN,
        [],
        [waits(0)],
        more={"world": 2, "hosts": {0: "node01"}},
    ),
    Case("no stacks, all idle", Kind.UNKNOWN, [0, 1, 2, 3], [row(r) for r in range(4)]),
    Case("no look of one rank", Kind.UNKNOWN, [3], OTHERS),
    Case("no looks at all", Kind.UNKNOWN, [], []),
    Case("one rank", Kind.SLEEPING, [0], [row(0, frames(), **SLEEP)], more={"world": 1}),
    Case("it moves", Kind.MOVING, [], [*OTHERS, waits(3)], more={"quiet": None}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_situation_is_told(case: Case) -> None:
    assert_told(case)
