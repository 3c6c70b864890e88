"""The folders of runs under ROOT/runs: which are in use, and how to remove leftovers.

RUN/work    the project, and what the ranks wrote there
RUN/tree    the sha256 of what the project consisted of
RUN/logs    what the ranks printed
RUN/copies  copies of checkpoints (remote/checkpoints)
RUN/lock    the agent of the run holds it, shared, as long as the run lasts
RUN/journals/HOST  what happened there (journal.py)
RUN/attempts.HOST  the record of a run with keepers (attempt_lines.py)
"""

import fcntl
import os
import re

from ipexctl.common.files import open_regular, remove_path
from ipexctl.common.locks import take_lock, try_lock
from ipexctl.common.processes import environ_of, process_ids
from ipexctl.common.tolerant_reads import changed_at, names_in
from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure

COPIES = "copies"  # the folder of a run with the copies of checkpoints that hosts hold
RUN_ID = re.compile(r"^[a-z0-9-]{4,64}$")
PART = re.compile(r"work\.[0-9a-f]{16}\Z")  # an unfinished sync
LOG = re.compile(r"rank([0-9]{5,9})\.log\Z")
MARK = b"IPEXCTL_RUN_ID="
held = {}  # type: dict[str, int]  # locks of this agent, by folder


def checked_id(run_id: str) -> str:
    if not RUN_ID.match(run_id):
        raise Failure("%r is not a run id" % run_id, slug="invalid-request")
    return run_id


def folder_of(root: str, run_id: str) -> str:
    """Return the folder of that run, which may not exist."""
    return os.path.join(root_folder.check_existing_root(root), "runs", checked_id(run_id))


def path_in_run_folder(folder: str, path: str) -> str:
    full_path = os.path.normpath(os.path.join(folder, path))
    if os.path.isabs(path) or not full_path.startswith(folder + os.sep):
        raise Failure("the path %r leads out of the run's folder" % path, slug="invalid-request")
    return full_path


def log_of(folder: str, rank: int) -> str:
    return os.path.join(folder, "logs", "rank%05d.log" % rank)


def ranks_with_logs(folder: str) -> "list[int]":
    matches = map(LOG.match, names_in(os.path.join(folder, "logs")))
    return sorted(int(match.group(1)) for match in matches if match)


def end_of_log(folder: str, rank: int, size: int) -> str:
    """Return the text of the last `size` bytes, "" if it cannot be read."""
    try:
        with open_regular(log_of(folder, rank), os.O_NOFOLLOW) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def hold_folder(folder: str) -> None:
    """Mark the run of this folder as active, or the data as in use, until this process ends."""
    while folder not in held:
        try:
            fd = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # a prune came between us and the lock
            os.mkdir(folder, 0o700)
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
        except OSError:  # a file system without locks
            pass
        if os.fstat(fd).st_nlink:
            held[folder] = fd
        else:
            os.close(fd)


def run_ids(root: str) -> "list[str]":
    """Return the ids of the runs, the oldest first."""
    top = os.path.join(root, "runs")
    names = filter(RUN_ID.match, names_in(top))
    folders = [name for name in names if not os.path.islink(os.path.join(top, name))]
    # the lock is the first file of a run
    return sorted(folders, key=lambda name: (changed_at(os.path.join(top, name, "lock")), name))


def last_written(folder: str) -> float:
    """Return when the run ended, by journals and logs; a prune changes the folder itself."""
    paths = [os.path.join(folder, "lock")]
    for below in (os.path.join(folder, name) for name in ("journals", "logs")):
        paths += [os.path.join(below, name) for name in names_in(below)]
    return max(map(changed_at, paths))


def list_active_runs(root: str) -> "list[str]":
    """Return runs held by an agent on any host with this root, or with a process on this host."""
    marked = marked_runs()
    locks = {name: os.path.join(root, "runs", name, "lock") for name in run_ids(root)}
    return [name for name, lock in locks.items() if name in marked or is_locked(lock)]


def is_locked(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not try_lock(fd)
    finally:
        os.close(fd)


def lock_run(folder: str) -> "int | None":
    """Take the run's lock. None: the run is being made, is active, or is being pruned."""
    return take_lock(os.path.join(folder, "lock"))


def sweep_run_folders(root: str) -> None:
    """Remove leftovers of killed syncs. Hosts with one home share the lock."""
    for run in run_ids(root):
        folder = os.path.join(root, "runs", run)
        leftovers = list(filter(PART.match, names_in(folder)))
        lock = lock_run(folder) if leftovers else None
        if lock is not None:
            for name in leftovers:
                remove_path(os.path.join(folder, name))
            os.close(lock)


def marked_runs() -> "set[str]":
    """Return the ids of runs that have a process on this host."""
    return {run for run in map(run_of, process_ids()) if run}


def run_of(pid: int) -> str:
    """Return the id of the run to which a process belongs, "" if it belongs to none."""
    marks = (v for v in environ_of(pid) if v.startswith(MARK))
    return next((os.fsdecode(mark[len(MARK) :]) for mark in marks), "")
