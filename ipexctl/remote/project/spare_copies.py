"""Copies of folders for the runs to come: the next run takes one, and changes what has changed.

Making thousands of files takes long on some disks. A run would wait for it at its start, but not
while its ranks compute. No process of a run ever sees a spare copy before it is that run's own.
They are not synced to the disk, so those of an earlier boot are not used.
"""

import ctypes
import glob
import json
import os
import shutil
import time

from ipexctl.remote import durable, root_folder
from ipexctl.remote.blobs import blobs

MOST = 16 * 1000 * 1000  # bytes of a folder, of whose small files a copy is kept
COUNT = 2  # the ones used last
SHARED = 0.5  # of a folder's files must be in a spare copy for that to be worth while
STALE = 3600  # seconds after which an unfinished one is nobody's any more
OTHER_BOOT = 86400  # seconds after which copies of another boot, or host with this home, go
EMPTY = {"folders": [], "files": [], "links": []}  # type: dict[str, list[list[object]]]
GETTID = {"x86_64": 186, "aarch64": 178}


def make(root, key, fill):
    """Makes a spare copy, if it is not there, and forgets those used longest ago."""
    boot = durable.boot_id()
    if not boot:
        return
    top = root_folder.subfolder(root, "blobs", "spare", boot)
    path = os.path.join(top, blobs.checked_sha(key))
    if not os.path.isdir(path):
        part = "%s.%d-%s" % (path, os.getpid(), os.urandom(4).hex())
        os.mkdir(part, 0o700)
        try:
            fill(os.fsencode(part))
            os.rename(part, path)
        except OSError:
            pass
        finally:
            shutil.rmtree(part, ignore_errors=True)
    remove_oldest(top, key)


def remove_oldest(top, key):
    for path in glob.glob(os.path.join(glob.escape(os.path.dirname(top)), "*")):
        if path != top and os.lstat(path).st_mtime < time.time() - OTHER_BOOT:
            shutil.rmtree(path, ignore_errors=True)
    found = []
    for name in os.listdir(top):
        path = os.path.join(top, name)
        try:
            used = os.lstat(path).st_mtime
        except OSError:
            continue
        if blobs.SHA.match(name):
            found.append((name == key, used, path))
        elif used < time.time() - STALE:
            shutil.rmtree(path, ignore_errors=True)
    for _, _, path in sorted(found, reverse=True)[COUNT:]:
        remove(path)


def beyond(root, most):
    """(path, bytes) of the copies that are too much together, those used longest ago."""
    found = []
    for path in glob.glob(os.path.join(glob.escape(os.path.join(root, "blobs", "spare")), "*/*")):
        try:
            found.append((os.lstat(path).st_mtime, path))
        except OSError:
            continue
    total = 0
    for _, path in sorted(found, reverse=True):
        size = disk_usage(path)
        total += size
        if total > most:
            yield path, size


def disk_usage(folder):
    size = 0
    for top, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(top, name)).st_blocks * 512
            except OSError:
                continue
    return size


def remove(path):
    away = "%s.%d-gone" % (path, os.getpid())
    try:
        os.rename(path, away)  # so that nobody takes half of it
    except OSError:
        return
    shutil.rmtree(away, ignore_errors=True)


def take(root, key, tree, work):
    """Moves the spare copy that is most like `tree` to `work`. What it consists of, None: none."""
    top = os.path.join(root, "blobs", "spare", durable.boot_id() or "none")
    try:
        names = [name for name in os.listdir(top) if blobs.SHA.match(name)]
    except OSError:
        return None
    best = tree if key in names else None
    if best is None:
        key, best = most_like(root, names, tree)
    try:
        if best is not None:
            os.rename(os.fsencode(os.path.join(top, key)), work)
    except OSError:
        return None  # another run took it
    return best


def most_like(root, names, tree):
    wanted = by_path(tree)
    best = ("", None, max(1, SHARED * len(wanted)))
    for name in names:
        try:
            with open(os.path.join(root, "blobs", "trees", name), "rb") as file:
                other = json.loads(file.read().decode("ascii"))
        except (OSError, ValueError):
            continue
        have = by_path(other)
        shared = sum(1 for path in wanted if have.get(path) == wanted[path])
        if shared >= best[2]:
            best = (name, other, shared)
    return best[:2]


def by_path(tree):
    """What is at each path, except for folders."""
    found = {name: (sha, executable) for name, sha, _, executable in tree["files"]}
    found.update((name, (target, None)) for name, target in tree["links"])
    return found


def lowest_priority():
    """Of this thread: what the run itself does comes first."""
    try:
        thread = ctypes.CDLL(None).syscall(GETTID[os.uname().machine])
        os.setpriority(os.PRIO_PROCESS, thread, 19)
    except (OSError, KeyError, AttributeError):
        pass
