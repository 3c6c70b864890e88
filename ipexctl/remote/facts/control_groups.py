"""Read what the control group of this process may use: CPUs, memory, processes."""

from ipexctl.common.processes import fields_of
from ipexctl.common.tolerant_reads import read_text
from ipexctl.remote.facts.probe_values import expand_cpu_list, parse_number

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable
    from typing import Any

    from ipexctl.remote.facts.read_storage import Mount


TIMES = ("quota_us", "period_us")  # of a control group of version 1


def read_cgroup(fs: str, mounts: "list[Mount]") -> "dict[str, Any]":
    """Return the CPUs, the share of them and the memory that this control group may use."""
    paths = {}
    for line in read_text(fs + "/proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for name in parts[1].split(","):
                paths[name] = parts[2]
    for name in ("", "cpuset"):
        paths.setdefault(name, read_text(fs + "/proc/self/cpuset").strip() or "/")
    base = {}
    for point, kind, options, _ in mounts:
        if kind == "cgroup2":
            base[""] = fs + point
        elif kind == "cpuset":
            base["cpuset"] = fs + point
        elif kind == "cgroup":
            for name in ("cpuset", "cpu", "memory", "pids"):
                if name in options:
                    base[name] = fs + point

    def folders(controller: str) -> "list[str]":
        where = base.get(controller)
        return _cgroup_folders(where, paths.get(controller, "/")) if where else []

    def lines(controller: str, *files: str) -> "list[str]":
        return [text for text in (_read_first_of(f, files) for f in folders(controller)) if text]

    cpuset = lines("", "cpuset.cpus.effective")
    cpuset += lines("cpuset", "cpuset.effective_cpus", "cpuset.cpus", "cpus")
    mems = [fields_of(read_text(fs + "/proc/self/status")).get("Mems_allowed_list", "")]
    mems += lines("", "cpuset.mems.effective")
    mems += lines("cpuset", "cpuset.effective_mems", "cpuset.mems", "mems")
    limits = [_cgroup_memory(f, "inactive_file") for f in folders("")]
    limits += [_cgroup_memory(f, "total_inactive_file") for f in folders("memory")]
    remaining = [limit - used for limit, used in limits if limit is not None and used is not None]
    pids = lines("", "pids.max") + lines("pids", "pids.max")
    shares = [_parse_cpu_share(text.split()) for text in lines("", "cpu.max")]
    shares += [
        _parse_cpu_share([_read_first_of(f, ["cpu.cfs_" + n]) for n in TIMES])
        for f in folders("cpu")
    ]
    return {
        "cpuset": expand_cpu_list(cpuset[0]) if cpuset else [],
        "quota": min((share for share in shares if share is not None), default=None),
        "mems": expand_cpu_list(next(filter(None, mems), "")) or None,
        "memory": min((limit for limit, _ in limits if limit is not None), default=None),
        "memory_left": max(0, min(remaining)) if remaining else None,
        "pids": min((n for n in map(parse_number, pids) if n is not None), default=None),
    }


def _cgroup_folders(base: str, path: str) -> "list[str]":
    """Yield the folders of this control group and of each one above it."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/".join([base] + parts[:depth]) for depth in range(len(parts), -1, -1)]


def _read_first_of(folder: str, files: "Iterable[str]") -> str:
    """Return the content of the first of these files that has any; "" if none has."""
    for name in files:
        text = read_text(folder + "/" + name).strip()
        if text:
            return text
    return ""


def _cgroup_memory(folder: str, droppable: str) -> "tuple[int | None, int | None]":
    """Return (limit, use that cannot be dropped) of a control group; None: no limit, or unknown."""
    files = ("max", "high", "limit_in_bytes")
    numbers = [parse_number(read_text(folder + "/memory." + name)) for name in files]
    limits = [n for n in numbers if n is not None and n < 1 << 60]
    if not limits:
        return None, None
    used = parse_number(_read_first_of(folder, ["memory.current", "memory.usage_in_bytes"]))
    cache = 0
    for line in read_text(folder + "/memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == droppable:
            cache = parse_number(value) or 0
    return min(limits), None if used is None else max(0, used - cache)


def _parse_cpu_share(words: "list[str]") -> "float | None":
    """Convert ["200000", "100000"] to 2.0 CPUs; "max" and -1 mean no limit."""
    numbers = [parse_number(word) for word in words]
    if len(numbers) != 2 or not numbers[0] or not numbers[1] or numbers[0] < 0:
        return None
    return numbers[0] / float(numbers[1])
