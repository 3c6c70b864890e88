"""What an ordinary user may safely mend here, and take back: looked for, done, undone.

A change is planned by `look`, and looked at once more before it is done. The record under
ROOT/fixes has all that `undo` needs, and is on the disk before anything changes.
"""

import json
import os
import re
import shutil
import stat
import time

from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure

SHM = "/dev/shm"
# of PyTorch (its process id is in the name), Python, Intel MPI, MPICH, Open MPI, oneCCL
KNOWN = re.compile(
    r"(?:torch_(?P<pid>\d+)_.*|psm_[0-9a-z]+|sem\.mp-.+|Intel_MPI_.+|mpich_shar_tmp.+"
    r"|(?:vader_segment|sm_segment)\..+|ccl[-_].+)\Z"
)
OLD = 600.0  # seconds: nobody who has just begun is disturbed
KEEP = 256 << 20  # bytes that are kept for undo
RECORD = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]+\Z")


def op_plan(call, args):
    """{root} -> {changes: [{key, what, undo, size}], left: [text]}"""
    changes, left = _plan(args, _root(args))
    return {"changes": changes, "left": left}


def op_apply(call, args):
    """{root, keys} -> {done, failed, record}. Only what `look` finds again is done."""
    root = _root(args)
    changes, _ = _plan(args, root)
    wanted = [c for c in changes if c["key"] in args["keys"]]
    missing = len(args["keys"]) - len(wanted)
    failed = ["%d items have changed since they were shown" % missing] if missing else []
    if not wanted:
        return {"done": [], "failed": failed, "record": ""}
    mode = [c for c in wanted if c["key"] == "root-mode"]
    if mode:  # first: blobs takes no folder that others can write to
        os.chmod(root, stat.S_IMODE(os.lstat(root).st_mode) & ~0o022)
    folder = root_folder.subfolder(root, "fixes")
    name = "%s-%d" % (time.strftime("%Y%m%d-%H%M%S"), os.getpid())
    record = {"name": name, "items": [{"key": c["key"], "mode": c["mode"]} for c in mode]}
    done = [c["what"] for c in mode]
    try:
        for change in wanted:
            if change not in mode:
                _keep_and_remove(folder, record, change)
                done.append(change["what"])
    except OSError as e:
        failed.append("%s: %s" % (change["what"], e.strerror or e))
    _write(folder, record)
    return {"done": done, "failed": failed, "record": os.path.join(folder, name + ".json")}


def op_undo(call, args):
    """{root} -> {done, failed, record}: takes back the newest record, then forgets it."""
    folder = os.path.join(_root(args), "fixes")
    names = [n[:-5] for n in _names(folder) if n.endswith(".json") and RECORD.match(n[:-5])]
    if not names:
        return {"done": [], "failed": [], "record": ""}
    name = max(names)
    path = os.path.join(folder, name + ".json")
    with open(path) as f:
        record = json.load(f)
    done, failed = [], []
    for number, item in enumerate(record["items"]):
        try:
            done.append(_undo_item(args, folder, name, number, item))
        except OSError as e:
            failed.append("%s: %s" % (item["key"], e.strerror or e))
    if not failed:
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        os.unlink(path)
    return {"done": done, "failed": failed, "record": path}


# --- looking -------------------------------------------------------------------------------------


def _root(args):
    root = os.path.expanduser(args.get("root", "~/.ipexctl"))
    if not os.path.isabs(root):
        raise Failure("the root folder %s is not absolute" % root, slug="root-path-unusable")
    return os.path.normpath(root)


def _plan(args, root):
    changes, left = [], []
    changes += _open_root(root)
    shm = args.get("shm", SHM)
    busy = _busy(shm)
    room = _room(root)
    for name in sorted(_names(shm)):
        match = KNOWN.match(name)
        path = os.path.join(shm, name)
        found = _stale(path, match, busy, args.get("old", OLD)) if match else None
        if not found:
            continue
        size = found.st_blocks * 512
        text = "remove %s (%s, %s old, no process has it)" % (
            path,
            _size(size),
            _age(time.time() - max(found.st_mtime, found.st_ctime)),
        )
        if size > room:
            left.append("%s: too large to back up; rm %s" % (path, path))
            continue
        room -= size
        key = "shm:%s:%d:%d" % (name, found.st_ino, found.st_mtime)
        changes.append({"key": key, "what": text, "undo": "put back", "size": size, "path": path})
    return changes, left


def _open_root(root):
    """Others could put their own programs there: install and run refuse such a folder."""
    try:
        found = os.lstat(root)
    except OSError:
        return []
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or not mode & 0o022:
        return []
    what = "chmod go-w %s (is %o: others could change the programs that run)" % (root, mode)
    return [{"key": "root-mode", "what": what, "undo": "chmod %o" % mode, "size": 0, "mode": mode}]


def _stale(path, match, busy, old):
    """Its stat, if it is ours, old, and in nobody's hands."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    young = time.time() - max(found.st_mtime, found.st_ctime, found.st_atime) < old
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or young:
        return None
    if (found.st_dev, found.st_ino) in busy or found.st_nlink != 1:
        return None
    pid = match.group("pid")
    if pid and os.path.exists("/proc/" + pid):
        return None
    return found


def _busy(shm):
    """(device, inode) of what any process that we may look into has open or mapped."""
    found = set()
    for pid in _names("/proc"):
        if not pid.isdigit():
            continue
        for kind in ("fd", "map_files"):
            folder = "/proc/%s/%s" % (pid, kind)
            for name in _names(folder):
                try:
                    where = os.readlink(folder + "/" + name)
                    if where.startswith(shm + "/"):
                        there = os.stat(folder + "/" + name)
                        found.add((there.st_dev, there.st_ino))
                except OSError:
                    continue
        found |= _mapped(pid, shm)
    return found


def _mapped(pid, shm):
    """By /proc/PID/maps, which users may read of their own processes where map_files is root's."""
    found = set()
    try:
        with open("/proc/%s/maps" % pid, errors="replace") as f:
            for line in f:
                words = line.split(None, 5)
                if len(words) == 6 and words[5].startswith(shm + "/"):
                    there = os.stat(words[5].rstrip("\n"))
                    found.add((there.st_dev, there.st_ino))
    except OSError:
        pass
    return found


def _room(root):
    there = root
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    space = os.statvfs(there)
    return min(KEEP, space.f_bavail * space.f_frsize // 4)


# --- doing ---------------------------------------------------------------------------------------


def _keep_and_remove(folder, record, change):
    number = len(record["items"])
    kept = root_folder.subfolder(folder, record["name"])
    path = change["path"]
    found = os.lstat(path)
    copy = os.path.join(kept, str(number))
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(source, "rb") as old, open(copy, "wb") as new:
        shutil.copyfileobj(old, new, 1 << 20)
        new.flush()
        os.fsync(new.fileno())
    item = {"key": change["key"], "path": path, "mode": stat.S_IMODE(found.st_mode)}
    item["times"] = [found.st_atime, found.st_mtime]
    record["items"].append(item)
    _write(folder, record)
    os.unlink(path)


def _undo_item(args, folder, name, number, item):
    if item["key"] == "root-mode":
        os.chmod(os.path.dirname(folder), item["mode"])
        return "chmod %o %s" % (item["mode"], os.path.dirname(folder))
    path = item["path"]
    if os.path.dirname(path) != args.get("shm", SHM):
        raise OSError(0, "is not in %s" % SHM)
    copy = os.path.join(folder, name, str(number))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(copy, "rb") as old, os.fdopen(os.open(path, flags, 0o600), "wb") as new:
        shutil.copyfileobj(old, new, 1 << 20)
    os.chmod(path, item["mode"])
    os.utime(path, tuple(item["times"]))
    return "put back %s" % path


def _write(folder, record):
    path = os.path.join(folder, record["name"] + ".json")
    with open(path + ".new", "w") as f:
        json.dump(record, f)
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".new", path)


def _names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _size(count):
    return "%d KiB" % (count // 1024) if count < 1 << 20 else "%d MiB" % (count >> 20)


def _age(seconds):
    return "%d min" % (seconds // 60) if seconds < 7200 else "%d h" % (seconds // 3600)
