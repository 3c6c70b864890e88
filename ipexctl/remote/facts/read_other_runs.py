"""Find the runs that are active on this host, including those of other users.

Each supervisor has an abstract socket (control.py). /proc/net/unix lists them, and the kernel says
which process of which user is behind one. /proc shows the rest, as far as it may be read. Most
hosts have no run, so modules that are needed for one are imported late.
"""

import collections
import os
import re
import socket
import time

from ipexctl.common.processes import stat_of, user_name
from ipexctl.common.tolerant_reads import read_text

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable
    from typing import Any

    from ipexctl.remote.main import Call


LISTENS = 0x10000  # flag of a listening socket
# a line of /proc/net/unix: its flags, a supervisor's name, its run. A name of another account may
# have any bytes, line ends too, so that the rest of it looks like lines: only whole ones count
ROW = re.compile(
    r"[0-9a-fA-F]+: (?:[0-9A-F]{8} ){2}([0-9A-F]{8}) [0-9A-F]{4} [0-9A-F]{2} +[0-9]+ "
    r"@(ipexctl-run/[0-9]+/([a-z0-9-]{4,64})/[0-9a-f]{16})\Z"
)
PATIENCE = 1.0  # seconds for all connections that have to wait
# of one other account: any can make sockets that look like runs, and hide only its own
MOST_RUNS = 50
CPUS = "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list"


def op_list(call: "Call", root: str) -> "dict[str, Any]":
    """{root} -> {runs}, as find_other_runs returns them."""
    return {"runs": find_other_runs(os.path.expanduser(root))}


def find_other_runs(root: str = "") -> "list[dict[str, Any]]":
    """Return [{run, own, owner, name, command, ranks, cpus, cores, memory, seconds}, ...].

    `root`: the folder whose journals name this user's runs. None: the value cannot be read.
    """
    sockets = list_supervisor_sockets()
    if not sockets:
        return []
    from ipexctl.remote.rank import rank_wrapper

    runs = {}  # type: dict[tuple[int, int], dict[str, object]]
    counts = collections.Counter()  # type: collections.Counter[int]  # by account
    used = {}  # type: dict[int, dict[str, Any]]  # by process, which may have many sockets
    processes, end = None, time.monotonic() + PATIENCE
    for address, run in sockets:
        pid, uid = find_supervisor_process(address, end)
        if uid is None or (uid != os.getuid() and counts[uid] >= MOST_RUNS):
            continue
        comm = read_text("/proc/%d/comm" % pid)
        if pid and comm and comm.strip() != rank_wrapper.SUPERVISOR:
            continue
        processes = processes or rank_wrapper.list_processes()
        own = uid == os.getuid()
        counts[uid] += 1
        if pid not in used:
            used[pid] = measure_run_usage(pid, processes)
        row = dict(used[pid], run=run, own=own, name="", command="")
        row["owner"] = user_name(uid)
        runs[uid, pid] = dict(row, **describe_own_run(root, run)) if own and root else row
    return list(runs.values())


def list_supervisor_sockets() -> "list[tuple[str, str]]":
    """Return (address, run id) of each supervisor; its connections have the same name."""
    names = set()
    for line in read_text("/proc/net/unix").splitlines()[1:]:
        match = ROW.match(line)
        if match and int(match.group(1), 16) & LISTENS:
            names.add(("\0" + match.group(2), match.group(3)))
    return sorted(names)


def find_supervisor_process(address: str, end: float) -> "tuple[int, int | None]":
    """Return (pid, uid) of the listener; pid 0: in another container; uid None: no listener, or it
    has not accepted until `end`. Any account can make sockets that never do."""
    from ipexctl.remote.run import control

    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        control.connect_with_timeout(link, address, end - time.monotonic())
        pid, uid = control.peer_credentials(link)  # type: int, int
        return pid, uid
    except OSError:
        return 0, None
    finally:
        link.close()


def measure_run_usage(pid: int, processes: "dict[int, tuple[str, int]]") -> "dict[str, Any]":
    """Return what the run of this supervisor uses; memory that processes share is not counted."""
    from ipexctl.remote.rank import rank_wrapper

    guardian = processes[pid][1] if pid in processes else 0
    if read_text("/proc/%d/comm" % guardian).strip() != rank_wrapper.GUARDIAN:
        guardian = pid  # it was killed
    descendants = (
        rank_wrapper.find_descendant_pids(guardian, processes) if pid in processes else set()
    )
    wrappers = {p for p in descendants if is_wrapper(p)}
    scripts = {p for p in descendants - wrappers if processes[p][1] in wrappers}
    cpus = set()  # type: set[int]
    for script in scripts:
        cpus.update(read_affinity(script))
    ranks = len(wrappers - {processes[p][1] for p in wrappers})  # without MPI one starts the others
    seconds = process_age(pid)
    return {
        "ranks": ranks if seconds is not None else None,
        "cpus": sorted(cpus) if cpus else None,
        "cores": len({read_text(CPUS % cpu) or str(cpu) for cpu in cpus}) if cpus else None,
        "memory": sum(map(own_memory, descendants | {pid})) if seconds is not None else None,
        "seconds": seconds,
    }


def is_wrapper(pid: int) -> bool:
    """Return whether a process starts a rank. Other accounts can have words of megabytes."""
    words = read_text("/proc/%d/cmdline" % pid, limit=4096).split("\0")[:6]
    launches = "launch" in words  # it waits for a program on another host
    return not launches and any(word.endswith(("/rank.pyc", "/rank.py")) for word in words)


def read_affinity(pid: int) -> "Iterable[int]":
    try:
        return os.sched_getaffinity(pid)
    except OSError:
        return ()


def own_memory(pid: int) -> int:
    pages = read_text("/proc/%d/statm" % pid).split()
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 2 else 0


def process_age(pid: int) -> "int | None":
    """Return the seconds since the process was started."""
    fields = stat_of(pid)[1]
    uptime = read_text("/proc/uptime").split()
    if len(fields) < 20 or not uptime:
        return None
    return max(0, int(float(uptime[0]) - float(fields[19]) / os.sysconf("SC_CLK_TCK")))


def describe_own_run(root: str, run: str) -> "dict[str, str]":
    """Return {name, command, owner} of a run of this account, from its journal."""
    from ipexctl.remote.run_files import run_about

    folder = os.path.join(root, "runs", run)
    about = run_about.read_about(folder)
    return {
        "name": about.name[:64],
        "command": about.command[:200],
        "owner": run_about.read_owner(folder, user_name(os.getuid())),
    }
