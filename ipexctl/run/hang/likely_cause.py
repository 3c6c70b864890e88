"""The likely cause of each kind, and what to do about it."""

from __future__ import annotations

import re

from ipexctl.run.hang.evidence import RankLook
from ipexctl.run.hang.hang_report import Kind
from ipexctl.run.hang.rank_activity import NEW_GROUP, SUBPROCESS, Activity
from ipexctl.run.hang.wait_chain import explain, explain_worker

_REMOTE = re.compile(r"nfs|cifs|smb|lustre|gpfs|beegfs|ceph|gluster|fuse|9p|orangefs|afs")


EVERY = "every rank"
HOST = (Kind.BLOCKED_IO, Kind.STOPPED)  # their sentences name the host


def advice(kind: Kind, does: Activity | None, look: RankLook | None, detail: str) -> str:
    """`detail`: the host, EVERY, "" where no other rank waits, or what else a kind is about."""
    if look and does:
        return _of_rank(kind, does, look, detail)
    if kind is Kind.RENDEZVOUS and detail:
        reached = f"Check that {detail} is reachable from every host, that WORLD_SIZE is right"
        return f"{reached}, and that no two ranks have the same RANK (NODE_RANK, GROUP_RANK)."
    if kind is Kind.MISMATCH and detail == "order":
        return "Likely: they call the collectives of different groups in a different order."
    if kind is Kind.MISMATCH and detail == "pairs":
        return "Likely: sends and receives are not paired; use isend or batch_isend_irecv."
    if kind is Kind.HOST_SILENT:
        return f"Check whether {detail} is up and reachable."
    if kind is Kind.LEFT_EARLY and "exit code 0" in detail:
        return "Likely: it had fewer batches than the others; give all ranks the same number."
    return _FIXED[kind]


def _of_rank(kind: Kind, does: Activity, look: RankLook, detail: str) -> str:
    if does.thing == SUBPROCESS:
        return explain(look) or _OUTSIDE[SUBPROCESS]
    if kind is Kind.LOCK and (said := explain(look)):
        return said
    if kind is Kind.LOCK and does.action.endswith("is full"):
        return "Likely: nothing takes items out of it."
    if does.action.startswith(("waiting inside", "sleeping inside")):
        return f"{does.action.partition(' inside ')[2]} has not returned."
    in_pipe = look.blocked_on is not None and look.blocked_on.what == "pipe"
    if kind is Kind.BLOCKED_IO and in_pipe and (said := explain(look)):
        return said
    if kind is Kind.BLOCKED_IO or (kind is Kind.OUTSIDE and look.state == "D"):
        return f"Likely: {_disk(look, detail)}"
    if kind is Kind.STOPPED and look.state == "t":
        return "Detach the debugger or tracer (gdb, strace, py-spy)."
    if kind is Kind.STOPPED and look.pid:
        return f"Continue it: kill -CONT {look.pid} on {look.host}"
    if "for data loader worker" in does.action and (said := explain_worker(look)):
        return said
    if kind is Kind.WORKER and "by signal 9" in does.action:
        return "Likely: the worker was killed for lack of memory: check dmesg."
    if kind is Kind.WORKER and "data loader worker" not in does.action:
        return _LOST_TASK
    if does.action == NEW_GROUP:
        return "Every rank must call it, also those that are not in the group."
    if does.action.startswith("waiting for the file lock"):
        return _OUTSIDE["file lock"]
    if kind is Kind.OUTSIDE and does.thing:
        return _OUTSIDE.get(does.thing, f"Likely: {does.thing} does not answer.")
    if kind is Kind.COMPUTING and detail == EVERY:
        return "Nothing hangs: every rank computes. Raise --stall if steps take this long."
    if kind in (Kind.SLEEPING, Kind.SPINNING) and (detail in ("", EVERY) or "loop" in does.action):
        return "Likely: what it waits for here never happens."
    return _FIXED[kind]


def _disk(look: RankLook, host: str) -> str:
    on = look.blocked_on
    if on and on.what == "pipe":
        return "the process at the other end of the pipe does not write or read."
    fs = on.fs if on else ""
    folder = "/" + on.path.split("/")[1] if on and on.path.count("/") > 1 else ""
    at = ", ".join(filter(None, (folder, fs)))
    whose = "its file server" if _REMOTE.search(fs) else "its disk"
    if host == EVERY:
        whose, host = whose.replace("its", "the"), ""
    if not at and host:
        return f"a disk of {host} does not answer."
    about = ": ".join(filter(None, (host, at)))
    return f"{whose} does not answer" + (f" ({about})." if about else ".")


_LOST_TASK = (
    "A worker that dies takes its task with it (dmesg says whether memory ran out); "
    "concurrent.futures.ProcessPoolExecutor raises an error instead."
)
_OUTSIDE = {
    "stdin": "A run has no input: remove input() or breakpoint() from the script.",
    SUBPROCESS: "Likely: the command that it started hangs.",
    "connection": "Likely: the program that should connect does not.",
    "socket": "Likely: a server outside the run does not answer; set a timeout.",
    "file lock": "Likely: another process holds the lock file.",
}
_FIXED = {
    Kind.PARTITION: "Check switches, cables and firewalls between them.",
    Kind.LEFT_EARLY: "Its log says why it ended.",
    Kind.HOST_SILENT: "Check whether the host is up and reachable.",
    Kind.STOPPED: "Continue it with kill -CONT, or detach the debugger.",
    Kind.MISMATCH: "All ranks must call the same collectives in the same order: look for a branch "
    "that depends on the rank or its data.",
    Kind.RENDEZVOUS: "Check that MASTER_ADDR is reachable from every host.",
    Kind.BLOCKED_IO: "Likely: its disk does not answer.",
    Kind.WORKER: "Likely: a data loader worker hangs.",
    Kind.OUTSIDE: "Likely: it waits for something outside the run.",
    Kind.LOCK: "Likely: the thread or process that it waits for is stuck, or has ended.",
    Kind.SPINNING: "Likely: the condition of this loop never becomes true on this rank.",
    Kind.SLEEPING: "It sleeps while the others wait: remove the sleep, or let all ranks wait.",
    Kind.COMPUTING: "It may be slow, not stuck: does it do work that the others do not?",
    Kind.COLLECTIVE: "Likely: the network between hosts; run ipexctl doctor.",
    Kind.UNKNOWN: "The evidence does not tell why.",
    Kind.MOVING: "",
}
