"""The folders of runs under ROOT/runs: which are in use, and how they stay small.

RUN/work    the project, and what the ranks wrote there
RUN/tree    the sha256 of what the project consisted of
RUN/logs    what the ranks printed
RUN/shelf   copies of checkpoints (remote/shelf)
RUN/lock    the agent of the run holds it, shared, as long as the run lasts
"""

import fcntl
import os
import re
import shutil

from ipexctl.common.locks import try_lock
from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure

RUN_ID = re.compile(r"^[a-z0-9-]{4,64}$")
PART = re.compile(r"work\.[0-9a-f]{16}\Z")  # what a sync has not finished
LOG = re.compile(r"rank([0-9]{5,9})\.log\Z")
MARK = b"IPEXCTL_RUN_ID="
held = {}  # type: dict[str, int]  # locks of this agent, by folder


def run_id(h):
    if not RUN_ID.match(h["run_id"]):
        raise Failure("%r is not a run id" % h["run_id"], slug="invalid-request")
    return h["run_id"]


def folder_of(h):
    """{root, run_id} -> the folder of that run, which may not be there."""
    return os.path.join(root_folder.existing(h["root"]), "runs", run_id(h))


def inside(folder, path):
    full = os.path.normpath(os.path.join(folder, path))
    if os.path.isabs(path) or not full.startswith(folder + os.sep):
        raise Failure("the path %r leads out of the run's folder" % path, slug="invalid-request")
    return full


def log_of(folder, rank):
    return os.path.join(folder, "logs", "rank%05d.log" % rank)


def ranks_with_logs(folder):
    try:
        names = os.listdir(os.path.join(folder, "logs"))
    except OSError:
        return []
    return sorted(int(match.group(1)) for match in map(LOG.match, names) if match)


def end_of_log(folder, rank, size):
    """Text of its last `size` bytes, "" if it cannot be read."""
    try:
        with open(os.open(log_of(folder, rank), os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def hold(folder):
    """Until this process ends, the run of this folder is active, or the data is in use."""
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


def run_ids(root):
    """The oldest first."""
    top = os.path.join(root, "runs")
    try:
        names = [name for name in os.listdir(top) if RUN_ID.match(name)]
    except OSError:
        return []
    folders = [name for name in names if not os.path.islink(os.path.join(top, name))]
    return sorted(folders, key=lambda name: (age_of(os.path.join(top, name)), name))


def age_of(folder):
    """When its first file was made."""
    try:
        return os.lstat(os.path.join(folder, "lock")).st_mtime
    except OSError:
        return 0.0


def last_written(folder):
    """When the run ended, by its journals and logs; the folder itself changes with a prune."""
    paths = [os.path.join(folder, "lock")]
    for name in ("journals", "logs"):
        try:
            paths += [entry.path for entry in os.scandir(os.path.join(folder, name))]
        except OSError:
            continue
    times = []
    for path in paths:
        try:
            times.append(os.lstat(path).st_mtime)
        except OSError:
            continue
    return max(times or [0.0])


def active(root):
    """Runs that an agent on any host with this root holds, or of which a process is left here."""
    marked = marked_runs()
    locks = {name: os.path.join(root, "runs", name, "lock") for name in run_ids(root)}
    return [name for name, lock in locks.items() if name in marked or is_locked(lock)]


def is_locked(path):
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not try_lock(fd)
    finally:
        os.close(fd)


def lock_run(folder):
    """Return the open lock, or None while the run is made or active, or another agent prunes it."""
    try:
        fd = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is active; or nobody can tell, on a file system without locks
        os.close(fd)
        return None
    return fd


def sweep(root):
    """Removes what a sync left that was killed half-way. Hosts with one home hold one lock."""
    for run in run_ids(root):
        folder = os.path.join(root, "runs", run)
        try:
            parts = [name for name in os.listdir(folder) if PART.match(name)]
        except OSError:
            continue
        lock = lock_run(folder) if parts else None
        if lock is not None:
            for name in parts:
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
            os.close(lock)


def marked_runs():
    """Ids of runs of which a process is left on this host."""
    paths = ("/proc/" + pid for pid in os.listdir("/proc") if pid.isdigit())
    return {run for run in map(run_of, paths) if run}


def run_of(process):
    """The id of the run to which /proc/PID belongs, "" if to none."""
    try:
        with open(process + "/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return ""
    return next((os.fsdecode(v[len(MARK) :]) for v in variables if v.startswith(MARK)), "")
