"""The last collectives of a rank, and what its threads wait for (see in_ranks/rank_site.py)."""

import ast
import json
import os
import time

from ipexctl.remote.hang.process_state import NAME

LAST, GROUPS, RANKS = 6, 32, 4096  # that are kept: of each group; of all; of a group
SHAPES, SIZES = 8, 8  # tensors of a collective, dimensions of each
LARGEST = 8 << 20
MOST_WAITS = 1 << 20  # bytes that are evaluated: each takes up to 64 in memory
TOO_OLD = b"torch too old"


class Question:
    """To one process. `why`: "" while it may answer, else why there is no answer."""

    def __init__(self, site, pid, state):
        base = os.path.join(site or "", "%d." % pid)
        self.path = base + "recorded"
        self.cpu = 0.0  # seconds that the answer took
        self.why = "not asked"
        if not site:
            return
        if os.path.exists(base + "ask"):
            self.why = "silent" if state in "TtXZ" else self.ask(base + "ask")

    def ask(self, path):
        try:
            if os.path.exists(self.path):
                os.unlink(self.path)
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(pipe, b"?")
            finally:
                os.close(pipe)
        except OSError:
            return "silent"  # nothing reads it any more, or too many asked
        return ""

    def is_over(self):
        return bool(self.why) or os.path.exists(self.path)

    def answer(self):
        """(collectives or None, why not, what each thread waits for)"""
        if self.why:
            return None, self.why, []
        data = read(self.path)
        trace, _, rest = data.partition(b"\n")
        if len(rest) > MOST_WAITS:
            return None, "silent", []
        waits = []  # type: list
        try:
            groups, waits, cpu = ast.literal_eval(rest.decode("utf-8", "replace"))
            self.cpu = float(cpu)
            if trace == TOO_OLD:
                return None, "torch too old", waits
            document = json.loads(trace.decode("utf-8", "replace"))
            return reduce(document, groups, time.time()), "", waits
        except (ValueError, TypeError, AttributeError, SyntaxError, RecursionError, MemoryError):
            return None, "silent", waits


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read(LARGEST)
    except OSError:
        return b""


def reduce(document, rows, now):
    """`rows`: (name, description, ranks) of each group, which gloo does not record."""
    by_group = {}  # type: dict
    for entry in document.get("entries") or []:
        if entry.get("is_p2p"):
            continue  # gloo records none
        collective = read_entry(entry, now)
        by_group.setdefault(collective["group"], []).append(collective)
    groups = {}
    for name, description, ranks in rows[:GROUPS]:
        numbers = [int(rank) for rank in ranks[:RANKS]]
        groups[str(name)[:NAME]] = {"name": str(description)[:NAME], "ranks": numbers}
    last = [row for name in sorted(by_group)[:GROUPS] for row in by_group[name][-LAST:]]
    for row in last:
        groups.setdefault(row["group"], {"name": row["name"], "ranks": []})
    return {"last": last, "groups": groups}


def read_entry(entry, now):
    group = [str(word)[:NAME] for word in entry.get("process_group") or [entry.get("pg_id")]]
    sizes = [list(shape)[:SIZES] for shape in (entry.get("input_sizes") or [])[:SHAPES]]
    created = entry.get("time_created_ns") or 0
    return {
        "group": group[0],
        "name": group[-1],
        "seq": entry.get("collective_seq_id"),
        "op": str(entry.get("profiling_name") or "").rpartition(":")[2][:NAME],
        "sizes": sizes,
        "dtypes": [str(word)[:NAME] for word in (entry.get("input_dtypes") or [])[:SHAPES]],
        "done": bool(entry.get("retired")) or entry.get("state") == "completed",
        "age": round(max(0.0, now - created / 1e9), 1) if created else None,
    }
