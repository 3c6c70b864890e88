"""Looks as hosts make them: shapes of torch 2.13, gloo, Python 3.11 on x86-64."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ipexctl.common.rank_looks import RankLook
from ipexctl.run.hang.diagnosis import diagnose_run
from ipexctl.run.hang.diagnosis_layout import diagnosis_document, diagnosis_lines
from ipexctl.run.hang.evidence import looks_of
from ipexctl.run.hang.hang_report import Situation

Raw = dict[str, Any]
WORK = "/root/.ipexctl/runs/bert-1/work/"
SITE = "/root/.ipexctl/envs/abc/lib/python3.11/site-packages/"
LIB = "/root/.ipexctl/python/lib/python3.11/"
TORCH = SITE + "torch/distributed/"
MASTER = "10.0.0.1:29500"
FUTEX = {"state": "S", "wchan": "futex_do_wait", "syscall": [202, 94086, 393, 0]}
SLEEP = {"state": "S", "wchan": "hrtimer_nanosleep", "syscall": [230, 1, 1, 0]}
BUSY = {"state": "R", "cpu": 1.0, "main_cpu": 1.0, "wchan": "0", "syscall": []}
BACKWARD = [
    [SITE + "torch/autograd/graph.py", 979, "_engine_run_backward"],
    [SITE + "torch/autograd/__init__.py", 395, "backward"],
    [SITE + "torch/_tensor.py", 623, "backward"],
    [WORK + "train.py", 61, "<module>"],
]


def host(rank: int, per_host: int = 2) -> str:
    return f"node{rank // per_host + 1:02d}"


def frames(*inner: list[Any], line: int = 61, function: str = "train") -> list[Any]:
    return [*inner, [WORK + "train.py", line, function], [WORK + "train.py", 90, "<module>"]]


def called(function: str, line: int = 61) -> list[Any]:
    """A function of torch.distributed, called by the script."""
    wrapper = [TORCH + "c10d_logger.py", 83, "wrapper"]
    return frames([TORCH + "distributed_c10d.py", 3252, function], wrapper, line=line)


def call(seq: int, op: str = "all_reduce", done: bool = False, **more: Any) -> Raw:
    given: Raw = {"group": "0", "name": "default_pg", "seq": seq, "age": 62.0}
    return given | {"op": op, "sizes": [[1048576]], "dtypes": ["Float"], "done": done} | more


def calls(*last: Raw, **groups: list[int]) -> Raw:
    named = {key[1:]: {"name": key[1:], "ranks": ranks} for key, ranks in groups.items()}
    return {"last": list(last), "groups": named}


def place(path: str, line: int, function: str) -> Raw:
    return {"path": path, "line": line, "function": function}


def places(stack: list[Any]) -> list[Raw]:
    return [place(*frame) for frame in stack]


def row(rank: int, stack: list[Any] | None = None, **more: Any) -> Raw:
    """Idle in a futex, without collectives, unless told otherwise."""
    threads = [] if stack is None else [{"main": True, "name": "", "frames": places(stack)}]
    own = next((f for f in stack or [] if str(f[0]).startswith(WORK)), None)
    text = more.pop("text", "")
    return {
        "rank": rank,
        "pid": 4700 + rank,
        "blocked_on": None,
        "cpu": 0.0,
        "main_cpu": 0.0,
        "stacks": "none" if stack is None else "ok",
        "threads": threads,
        "source": {**place(*own), "text": text} if own else None,
        "waits_in_loop": False,
        "collectives": None,
        "collectives_why": "torch too old",
        "connections": [],
        "children": [],
        **FUTEX,
        **more,
    }


def waits(rank: int, seq: int = 412, **more: Any) -> Raw:
    """In the all_reduce of a DDP model."""
    given = {"collectives": calls(call(seq - 1, done=True), call(seq))} | more
    return row(rank, BACKWARD, **given)


def late(rank: int, stack: list[Any] | None = None, **more: Any) -> Raw:
    """Has finished #411 and not begun #412."""
    given = {"collectives": calls(call(410, done=True), call(411, done=True))} | more
    return row(rank, frames() if stack is None else stack, **given)


def looks(rows: list[Raw], per_host: int = 2) -> tuple[RankLook, ...]:
    return tuple(
        one for r in rows for one in looks_of(host(r["rank"], per_host), [RankLook.read(r)])
    )


def situation(rows: list[Raw], world: int = 4, per_host: int = 2, **more: Any) -> Situation:
    given: Raw = {
        "world_size": world,
        "hosts": {rank: host(rank, per_host) for rank in range(world)},
        "master": MASTER,
        "looks": looks(rows, per_host),
        "ended": {},
        "quiet": 62.0,
    }
    return Situation(**(given | more))


def assert_fits(lines: list[str], width: int) -> None:
    assert lines
    assert len(lines) <= 23  # and the caller's line
    assert [line for line in lines if len(line) > width or "\n" in line] == []


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


def waits_for_store(rank: int, text: str) -> Raw:
    target = {"what": "poll", "peer": MASTER}
    stack = frames()
    return row(
        rank, stack, text=text, wchan="poll_schedule_timeout", syscall=[7, 1, 1, 0],
        blocked_on=target,
    )  # fmt: skip


def child(**more: Any) -> Raw:
    given: Raw = {
        "rank": 3,
        "pid": 9,
        "name": "pt_data_worker",
        "state": "S",
        "cpu": 0.0,
        "exited": False,
    }
    stack = more.pop("frames", [])
    return given | {"threads": [{"main": True, "name": "", "frames": places(stack)}]} | more


def linked(rank: int, other: int, **more: Any) -> Raw:
    ends = {"here": f"10.0.0.{rank + 1}:40", "peer": f"10.0.0.{other + 1}:40"}
    return waits(rank, connections=[ends | more])


@dataclass(frozen=True)
class Case:
    name: str
    kind: str
    suspects: list[int]
    rows: list[Raw]
    doing: str = ""  # in the first suspect's line
    where: str = ""
    what: str = ""  # the largest group
    said: str = ""  # in `likely`
    more: Raw = field(default_factory=dict)


def behind(name: str, kind: str, stack: list[Any] | None = None, **more: Any) -> Case:
    """The others wait in a collective for rank 3; `more` is what its host sees of it or is told."""
    told = {key: more.pop(key) for key in ("doing", "where", "what", "said") if key in more}
    return Case(name, kind, [3], [*OTHERS, late(3, stack, **more)], **told)


def assert_told(case: Case) -> None:
    given = situation(case.rows, **case.more)
    found = diagnose_run(given)
    assert (found.kind.name, [s.rank for s in found.suspects]) == (case.kind, case.suspects)
    assert 0 < len(found.headline) <= 200
    first = found.suspects[0] if found.suspects else None
    assert case.doing in (first.doing if first else "")
    assert not case.where or (first and first.where == case.where)
    assert not case.what or found.groups[0].what == case.what
    assert case.said in found.likely
    assert_fits(diagnosis_lines(found, 80), 80)
    assert_fits(diagnosis_lines(found, 60), 60)
    assert json.loads(json.dumps(diagnosis_document(found)))["kind"] == case.kind
