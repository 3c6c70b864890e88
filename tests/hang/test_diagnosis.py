"""Each situation in which a run hangs, or seems to: its kind, its suspects, and what is shown."""

from __future__ import annotations

import pytest

from ipexctl.run.hang.cause_kinds import CAUSES

from .looks import (
    BUSY,
    LIB,
    LOADER,
    MASTER,
    OLD,
    OTHERS,
    PEER,
    QUEUE,
    READS,
    SITE,
    SLEEP,
    TORCH,
    WAIT,
    WORK,
    WORKER,
    Case,
    assert_told,
    behind,
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
    waits_for_store,
)

CASES = [
    behind(
        "a file server does not answer",
        "blocked-io",
        frames([WORK + "data.py", 88, "__next__"]),
        doing="/data/x.arrow, state D, 0 % CPU",
        where="data.py:88 in __next__",
        what="all_reduce #412 (DDP, 4.2 MB)",
        said="node02: /data, nfs",
        **READS,
    ),
    behind(
        "blocked in the kernel, on what is not known",
        "blocked-io",
        doing="io_schedule",
        state="D",
        wchan="io_schedule",
    ),
    behind(
        "a pipe that has no writer",
        "blocked-io",
        doing="pipe",
        syscall=[0, 5, 0, 1],
        wchan="pipe_read",
        blocked_on={"what": "pipe"},
    ),
    behind("sleeps, where only wchan can be read", "sleeping", **SLEEP | {"syscall": []}),
    behind(
        "sleeps in a loop until a file is there",
        "sleeping",
        doing="while not exists(flag)",
        waits_in_loop=True,
        text="while not exists(flag):",
        **SLEEP,
    ),
    behind("sleeps, on aarch64", "sleeping", syscall=[115], wchan=""),
    behind("a queue", "lock", frames(WAIT, *QUEUE), doing="queue"),
    behind(
        "a loop that waits and never sleeps",
        "spinning",
        doing="spinning: while not done, state R, 100 % CPU",
        waits_in_loop=True,
        text="while not done:",
        **BUSY,
    ),
    behind(
        "imports modules",
        "computing",
        frames([SITE + "a.py", 2, "f"], [SITE + "a.py", 9, "<module>"]),
        doing="importing modules",
        where="train.py:61 in train",
        **BUSY,
    ),
    behind(
        "computes in other threads",
        "computing",
        frames(WAIT),
        doing="other threads",
        cpu=3.0,
    ),
    Case("stopped in the collective", "stopped", [3], [*OTHERS, waits(3, state="T")]),
    behind("a debugger", "stopped", doing="debugger", state="t"),
    Case(
        "two ranks call another operation",
        "mismatch",
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
        "mismatch",
        [3],
        [*OTHERS, waits(3, collectives=calls(call(412, sizes=[[512, 2]])))],
        said="[512, 2]",
    ),
    Case(
        "other sizes of one rank, after a mismatch that gloo let pass",
        "mismatch",
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
        "mismatch",
        [3],
        [*OTHERS, waits(3, collectives=calls(call(412, dtypes=["BFloat16"])))],
        said="BFloat16",
    ),
    Case(
        "a monitored_barrier is not recorded",
        "mismatch",
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
        "mismatch",
        [0, 1],
        [
            row(0, called("all_reduce"), collectives=calls(call(4, group="1"), _1=[0, 1])),
            row(1, called("all_reduce", 7), collectives=calls(call(9, group="2"), _2=[0, 1])),
        ],
        more={"world": 2},
    ),
    Case(
        "both receive: gloo records neither",
        "mismatch",
        [0, 1],
        [row(r, called("recv"), collectives=calls()) for r in (0, 1)],
        more={"world": 2},
    ),
    Case(
        "a chain: one waits for a rank that waits for a rank that sleeps",
        "sleeping",
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
        "killed",
        "left-early",
        [3],
        OTHERS,
        doing="signal 9",
        more={"ended": {3: "signal 9"}},
    ),
    Case(
        "ended, and no collectives are recorded",
        "left-early",
        [3],
        OLD,
        more={"ended": {3: "exit code 0"}},
    ),
    Case(
        "the others have ended, and the last one still computes",
        "computing",
        [0],
        [row(0, frames(), **BUSY)],
        more={"ended": {1: "exit code 0", 2: "exit code 0", 3: "exit code 0"}},
    ),
    Case(
        "a host is silent",
        "host-silent",
        [2, 3],
        [waits(0), waits(1)],
        said="node02 does not answer for 40 s",
        more={
            "silent_hosts": (("node02", 1.0),),
            "cuts": (("node01 hears nothing from node02", 40.0),),
        },
    ),
    Case(
        "a cut between two hosts",
        "partition",
        [],
        [*OTHERS, waits(3)],
        said="node01 cannot reach node02",
        more={"cuts": (("node01 cannot reach node02", 30.0),)},
    ),
    Case(
        "has not joined: reads a file",
        "rendezvous",
        [3],
        [joins(0), joins(1), joins(2), row(3, frames(), **READS)],
        said=MASTER,
        doing="reading /data/x.arrow",
    ),
    Case("all join, with a wrong address", "rendezvous", [], [joins(r) for r in range(4)]),
    Case(
        "store.get() of a key that one rank has not set",
        "store-key",
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
        said="rank 1 (node01) waits in train.py:61 train for the key 'ready' of the store, which",
        more={"world": 2},
    ),
    Case(
        "store.wait() of a key that nobody sets, also in the rank that serves it",
        "store-key",
        [0, 1],
        [
            waits_for_store(rank, "dist.distributed_c10d._get_default_store().wait(['done'])")
            for rank in (0, 1)
        ],
        said="ranks 0-1 (node01) wait in train.py:61 train for the key 'done' of the store, which",
        more={"world": 2},
    ),
    Case(
        "a key that is no text in the script, while others wait in a collective",
        "store-key",
        [1],
        [waits(0), waits_for_store(1, "kv_store.get(f'ready/{step}')")],
        doing="waiting for a key of the store",
        more={"world": 2},
    ),
    behind(
        "a worker of the data loader blocks",
        "worker",
        frames(*LOADER),
        doing="state D in data.py:9 __getitem__",
        where="train.py:61 in train",
        children=[child(), child(state="D", frames=WORKER)],
    ),
    behind(
        "a worker process that was killed, where the rank reads its queue",
        "worker",
        frames([LIB + "multiprocessing/queues.py", 103, "get"]),
        doing="exited",
        syscall=[0, 9],
        blocked_on={"what": "pipe", "path": "", "fs": "", "peer": ""},
        children=[child(exited=True, state="Z")],
    ),
    behind(
        "a subprocess",
        "blocked-io",
        frames([LIB + "subprocess.py", 2011, "_wait"]),
        doing="subprocess",
        syscall=[61, 9],
    ),
    behind(
        "a server outside the run",
        "outside",
        frames([LIB + "ssl.py", 1166, "read"], [SITE + "urllib3/connection.py", 5, "get"]),
        doing="93.184.216.34:443",
        syscall=[0, 9],
        wchan="wait_woken",
        blocked_on={"what": "socket", "peer": "93.184.216.34:443"},
    ),
    behind(
        "input()",
        "outside",
        doing="input",
        syscall=[0, 0, 1, 1],
        wchan="pipe_read",
        text="name = input('?')",
    ),
    behind(
        "a breakpoint",
        "outside",
        frames([LIB + "cmd.py", 126, "cmdloop"], [LIB + "pdb.py", 1, "it"]),
        doing="debugger",
    ),
    Case(
        "a lock file that a process outside the run holds",
        "outside",
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
        "computing",
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
        "outside",
        [0, 1, 2, 3],
        [row(r, frames(), **READS) for r in range(4)],
        doing="/data/x.arrow",
    ),
    Case(
        "all compute",
        "computing",
        [0, 1, 2, 3],
        [row(r, frames(), **BUSY) for r in range(4)],
    ),
    Case("all have arrived", "collective", [], [*OTHERS, waits(3)], said="network"),
    Case(
        "all have arrived, and one connection loses data",
        "collective",
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
        "collective",
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
        "collective",
        [],
        [*OTHERS, late(3, collectives=calls(call(412, done=True)), **SLEEP)],
    ),
    Case(
        "others wait for a group that is stalled",
        "collective",
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
    behind(
        "ppoll on aarch64 has the number of flock on x86-64",
        "outside",
        doing="93.184.216.34:443",
        syscall=[73, 1],
        wchan="poll_schedule_timeout",
        blocked_on=PEER,
    ),
    Case("an old torch: the outlier", "sleeping", [3], [*OLD, row(3, frames(), **SLEEP)]),
    Case(
        "an old torch: another function",
        "mismatch",
        [3],
        [*(row(r, called("all_reduce")) for r in range(3)), row(3, called("broadcast", 9))],
    ),
    Case(
        "FSDP2 is not the user's code",
        "lock",
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
        "sleeping",
        [3],
        [
            *(row(r, frames([SITE + "deepspeed/comm/comm.py", 1, "barrier"])) for r in range(3)),
            row(3, frames(), **SLEEP),
        ],
        what="barrier",
    ),
    Case(
        "work.wait() has no frame",
        "sleeping",
        [1],
        [row(0, frames(), collectives=calls(call(412))), late(1, **SLEEP)],
        what="all_reduce #412 (4.2 MB)",
        more={"world": 2},
    ),
    Case(
        "an asynchronous collective is open, and the main thread sleeps before the next",
        "sleeping",
        [3],
        [
            *(waits(r, 413) for r in range(3)),
            row(3, frames(), collectives=calls(call(412)), **SLEEP),
        ],
    ),
    Case(
        "two causes: what explains more is first",
        "blocked-io",
        [3, 2],
        [waits(0), waits(1), late(2, **BUSY), late(3, **READS)],
    ),
    Case(
        "as many ranks called the one as the other: who is wrong is not known",
        "mismatch",
        [0, 1],
        [
            row(0, called("all_gather"), collectives=calls(call(412, "all_gather"))),
            row(1, called("barrier"), collectives=calls(call(412, "barrier"))),
        ],
        more={"world": 2},
    ),
    behind(
        "one rank alone calls new_group",
        "rendezvous",
        frames([TORCH + "distributed_c10d.py", 5581, "new_group"]),
        said="also those that are not in the group",
    ),
    Case(
        "no look of the other host yet, whose rank is not known either",
        "unknown",
        [],
        [waits(0)],
        more={"world": 2, "hosts": {0: "node01"}},
    ),
    Case("no stacks, all idle", "unknown", [0, 1, 2, 3], [row(r) for r in range(4)]),
    Case("no look of one rank", "unknown", [3], OTHERS),
    Case("no looks at all", "unknown", [], []),
    Case("one rank", "sleeping", [0], [row(0, frames(), **SLEEP)], more={"world": 1}),
    Case("it moves", "moving", [], [*OTHERS, waits(3)], more={"quiet": None}),
]


def test_each_cause_has_a_case_and_each_rank_rule_a_place_of_its_own() -> None:
    assert {case.kind for case in CASES} == set(CAUSES)
    places = [place for cause in CAUSES.values() for place in cause.rank_rules]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_situation_is_told(case: Case) -> None:
    assert_told(case)
