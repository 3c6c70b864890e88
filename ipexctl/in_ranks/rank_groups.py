"""Record which groups of torch.distributed a process of a rank is in, and their use of collectives.

rank_site.py runs this file once torch.distributed is imported. PID-TIME.groups beside it, which the
host reads, is written then, at the rendezvous, every EVERY seconds, before a group is destroyed and
at the end.

gloo counts the operations of a group, and records the last ones, also those that DDP and FSDP start
in C++ (torch 2.8 and newer). Otherwise DDP's constructor is the proof: it compares parameters with
the other ranks. A barrier proves nothing.
"""

import atexit
import functools
import json
import os
import sys
import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from ipexctl.in_ranks.rank_site import AfterImport

    Entry = dict[str, Any]  # an operation that gloo has recorded

EVERY = 15.0
SETTLE = 0.05  # seconds in which gloo's own thread marks the last collective as done
# other libraries that exchange data: with these, a group that did nothing proves nothing
OTHERS = (
    "mpi4py.MPI",
    "horovod",
    "ray",
    "distributed",
    "jax",
    "tensorflow",
    "mxnet",
    "byteps",
    "hivemind",
    "torchft",
    "torchcomms",
    "pyspark",
)


class Record(object):
    def __init__(self, folder: str, distributed: "ModuleType") -> None:
        self.folder, self.distributed = folder, distributed
        self.rank = int(os.environ.get("IPEXCTL_RANK", -1))
        self.began = time.time()
        # of the process with this pid
        self.path, self.said = (0, ""), {}  # type: tuple[int, str], dict[str, Any]
        # (name, members) -> [members, backend, data, operations that have ended]
        self.groups = {}  # type: dict[tuple[str | None, tuple[int, ...]], list[Any]]
        self.place = self.world = None  # rank and world size in torch.distributed
        self.joined = False  # whether the rendezvous has begun
        self.master = ""  # ADDRESS:PORT of the rendezvous
        self.since = 0.0  # nanoseconds; older records belong to groups that are gone
        self.wrapped = set()  # type: set[str | None]  # names of groups in which DDP was built
        self.pending = self.ended = self.settled = False
        self.says = None  # called when the rank begins to join a group

    def watch(self, after_import: "AfterImport") -> None:
        for name, call in (("rendezvous", self.meets), ("destroy_process_group", self.settle)):
            setattr(self.distributed, name, called_before(getattr(self.distributed, name), call))
        after_import("torch.nn.parallel.distributed", self.watch_ddp)
        atexit.register(safely, self.end)
        safely(self.write)

    def watch_ddp(self, module: "ModuleType") -> None:
        kind = module.DistributedDataParallel
        kind._ddp_init_helper = called_before(kind._ddp_init_helper, self.built)

    def built(self, model: "Any", *args: "Any", **kwargs: "Any") -> None:
        """Note that DDP's constructor has exchanged the shapes of parameters."""
        frame = sys._getframe(3)  # after this function, `safely` and what called_before() returns
        if frame.f_code.co_name == "__init__" and frame.f_locals.get("init_sync", True):
            self.wrapped.add(self.tables()[1].get(model.process_group))

    def meets(self, url: str = "", *args: "Any", **kwargs: "Any") -> None:
        """Note that a group is about to be formed."""
        kind, _, address = str(url).partition("://")
        self.master = address.partition("?")[0].partition("/")[0] if kind == "tcp" else ""
        if kind == "env":
            self.master = "%s:%s" % tuple(map(os.environ.get, ("MASTER_ADDR", "MASTER_PORT")))
        if not self.distributed.is_initialized():
            self.since = time.time() * 1e9
            if self.says is not None:
                self.says()
        self.joined = True
        self.write()

    def end(self) -> None:
        self.ended = True
        self.settle()

    def settle(self, *args: "Any", **kwargs: "Any") -> None:
        """Write what is known, before the group is gone."""
        limit = time.time() + SETTLE
        # a failed collective is marked as done, too, but raises here or has ended Python
        self.settled = sys.exc_info()[0] is None and not hasattr(sys, "last_type")
        self.look()
        while self.pending and time.time() < limit:
            time.sleep(0.005)
            self.look()
        self.write()
        self.settled = False

    def tables(self) -> "list[Any]":
        """Return (members, names) of the groups."""
        world = getattr(self.distributed, "_world", None)  # before torch 2.0, globals of the module
        names = ("pg_group_ranks", "pg_names")
        return [getattr(world, n) if world else getattr(self.distributed, "_" + n) for n in names]

    def look(self) -> None:
        """Update the groups from torch.distributed and from gloo's recorded operations."""
        if not self.distributed.is_initialized():
            return
        self.place, self.world = self.distributed.get_rank(), self.distributed.get_world_size()
        members, names = self.tables()
        entries, self.pending = read_recorded_operations(self.since), False
        for group, ranks in list(members.items()):
            if self.place in ranks:
                name, ranks = names.get(group), sorted(ranks)
                row = self.groups.setdefault((name, tuple(ranks)), [ranks, "", None, 0])
                row[1] = str(self.distributed.get_backend(group))
                matches = [e for e in entries if (e.get("process_group") or [None])[0] == name]
                self.learn(row, name, count_operations(group), matches)

    def learn(
        self, row: "list[Any]", name: "str | None", count: "int | None", entries: "list[Entry]"
    ) -> None:
        """Record whether data was exchanged in a group: True, False, or None if uncertain."""
        transfers = [e for e in entries if "barrier" not in str(e.get("profiling_name"))]
        done = sum(bool(e.get("retired")) for e in transfers)
        if row[2] or name in self.wrapped or done > 1 or (done and self.settled):
            row[2] = True
        else:
            only_barriers = not transfers and count == len(entries)  # send() counts, with no entry
            row[2] = False if count == 0 or only_barriers else None
            self.pending = self.pending or bool(transfers)
        running = sum(not e.get("retired") for e in entries) + has_failed_in_torch()
        row[3] = max(row[3], (count or 0) - running)

    def describe_group(
        self, ranks: "list[int]", backend: str, data: "bool | None", count: int
    ) -> "dict[str, Any]":
        """Return a RankGroup of common/exchange_report.py, which cannot be imported here."""
        members = [] if len(ranks) == self.world else ranks
        return {"ranks": members, "backend": backend, "data": data, "count": count}

    def write(self) -> None:
        """Write the record to PID-TIME.groups; if nothing has changed, only touch that file."""
        safely(self.look)
        ended, rows = self.ended, list(self.groups.values())
        document = {
            "pid": os.getpid(),
            "rank": self.rank,
            "ended": ended,
            "joined": self.joined,
            "master": self.master,
            "place": self.place,
            "world": self.world,
            "torch": str(getattr(sys.modules.get("torch"), "__version__", "")),
            "others": find_other_frameworks(),
            "groups": [self.describe_group(*row) for row in rows],
        }
        if document == self.said:  # a new file would count as progress of the rank
            os.utime(self.path[1])
            return
        self.said = dict(document)
        document["seconds"] = round(time.time() - self.began, 1)
        if self.path[0] != os.getpid():  # a forked process has its own file
            name = "%d-%d.groups" % (os.getpid(), time.time() * 1000)
            self.path = os.getpid(), os.path.join(self.folder, name)
        part = "%s.%x" % (self.path[1], id(document))
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(json.dumps(document))
        if ended or not self.ended:  # else the main thread has written the last version
            os.rename(part, self.path[1])


def has_failed_in_torch() -> bool:
    """Return whether torch's exception ends Python: gloo marks a failed collective as done."""
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    traceback = getattr(error, "__traceback__", None)
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    path = traceback.tb_frame.f_code.co_filename if traceback is not None else ""
    return isinstance(error, RuntimeError) and "/torch/" in path


def safely(call: "Callable[..., object]", *args: "Any", **kwargs: "Any") -> None:
    try:
        call(*args, **kwargs)
    except Exception:
        pass  # a record that is not written counts as unknown


def called_before(
    function: "Callable[..., Any]", call: "Callable[..., object]"
) -> "Callable[..., Any]":
    """Call `call` before a function that does not wait for other ranks: stacks of a wait then show
    only frames of the user and of torch. rendezvous() returns a generator."""

    @functools.wraps(function)
    def called(*args: "Any", **kwargs: "Any") -> "Any":
        safely(call, *args, **kwargs)
        return function(*args, **kwargs)

    return called


def read_recorded_operations(since: float) -> "list[Entry]":
    """Return gloo's last operations; none if it does not record them."""
    try:
        from torch._C import _distributed_c10d  # type: ignore

        entries = json.loads(_distributed_c10d._dump_fr_trace_json()).get("entries") or []
        return [e for e in entries if (e.get("time_created_ns") or 0) >= since]
    except Exception:
        return []


def count_operations(group: "Any") -> "int | None":
    """Return how many operations began in a group, including barriers and send(); None: unknown."""
    try:
        import torch  # type: ignore

        backend = group._get_backend(torch.device("cpu"))
        version = tuple(map(int, torch.__version__.split(".")[:2]))
        if version >= (2, 2) and type(backend).__name__ == "ProcessGroupGloo":  # from 0 on
            return int(backend._get_sequence_number_for_group())
    except Exception:
        pass
    return None


def find_other_frameworks() -> "list[str]":
    names = [name for name in OTHERS if name in sys.modules]
    if getattr(sys.modules.get("torch.distributed.rpc"), "_init_counter", 0):
        names.append("torch.distributed.rpc")
    return names
