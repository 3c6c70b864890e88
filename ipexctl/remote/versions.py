"""The versions of a data set on this host: which are whole, which are in use, removing them."""

import fcntl
import json
import os
import re
import shutil
import stat
import time

Failure = globals()["Failure"]  # these two are put there by remote/main.py
blobs = globals()["agent"].module("blobs")
trees = globals()["agent"].module("trees")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
ROOM = re.compile(r"\.?[0-9a-f]{16}\Z")


def home(root, name, make=True):
    if not isinstance(name, str) or not NAME.match(name):
        raise Failure("%r is not a name for data" % (name,), slug="input")
    return blobs.folder(root, "data", name) if make else os.path.join(root, "data", name)


def names(root):
    top = os.path.join(root, "data")
    try:
        found = sorted(n for n in os.listdir(top) if NAME.match(n))
    except OSError:
        return []
    return [n for n in found if os.path.isdir(os.path.join(top, n))]


def rooms(top):
    """Versions, those in the making, and what was left of either."""
    try:
        found = [n for n in os.listdir(top) if ROOM.match(n)]
    except OSError:
        return []
    return [n for n in found if os.path.isdir(os.path.join(top, n))]


def whole(top):
    """The versions that are complete."""
    found = [n for n in rooms(top) if not n.startswith(".")]
    return [n for n in found if os.path.exists(os.path.join(top, n, "tree"))]


def current(top):
    try:
        version = os.readlink(os.path.join(top, "current"))
    except OSError:
        return ""
    return version if version in whole(top) else ""


def pointed(top, version):
    if current(top) == version:
        return
    fresh = os.path.join(top, ".current.%s" % os.urandom(8).hex())
    os.symlink(version, fresh)
    os.rename(fresh, os.path.join(top, "current"))


def consists(top, version):
    try:
        with open(os.path.join(top, version, "tree"), "rb") as file:
            return json.loads(file.read().decode("ascii"))
    except (OSError, ValueError):
        return {"folders": [], "files": [], "links": []}


# --- is it as it was pushed? ---------------------------------------------------------------------


def is_good(call, top, version):
    """It is what runs get, and nobody has changed it: told without reading its files."""
    if current(top) != version:
        return False
    tree = consists(top, version)
    files = os.fsencode(os.path.join(top, version, "files"))
    if len(unchanged(call, files, tree)) < len(tree["files"]):
        return False
    linked = all(is_link(trees.inside(files, name), to) for name, to in tree["links"])
    return linked and all(os.path.isdir(trees.inside(files, name)) for name in tree["folders"])


def unchanged(call, files, tree):
    """Indices of the files that have the size, the date and the mode they were left with."""
    found = set()
    for i, stamp in enumerate(tree.get("stamps", [])):
        name, _, size, _ = tree["files"][i]
        if i % 1000 == 0:
            call.emit({"event": "alive"})
        try:
            info = os.lstat(trees.inside(files, name))
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode) and info.st_size == size and stamp_of(info) == stamp:
            found.add(i)
    return found


def stamp_of(info):
    return [info.st_mtime_ns, stat.S_IMODE(info.st_mode)]


def is_link(path, target):
    try:
        return os.readlink(path) == trees.encoded(target)
    except OSError:
        return False


# --- what is told --------------------------------------------------------------------------------


def listed(top):
    """The current version, or that there is none; and what is there besides."""
    version = current(top)
    complete = whole(top)
    if version:
        said = seen(top, version)
    else:
        files, size = on_disk(top)
        said = {"version": "", "files": files, "bytes": size, "path": top, "hub": ""}
    old = len(complete) - bool(version)
    parts = len(rooms(top)) - len(complete)
    return dict(said, name=os.path.basename(top), old=old, parts=parts)


def seen(top, version):
    path = os.path.join(top, version)
    files = consists(top, version)["files"]
    return {
        "name": os.path.basename(top),
        "version": version,
        "files": len(files),
        "bytes": sum(size for _, _, size, _ in files),
        "path": os.path.join(path, "files"),
        "hub": hub_of(path),
    }


def hub_of(path):
    """What HF_HOME should be, "" if this is no hub cache."""
    if os.path.islink(os.path.join(path, "hub")):
        return path
    marked = os.path.exists(os.path.join(path, "is-home"))
    return os.path.join(path, "files") if marked else ""


def on_disk(top):
    """(files, bytes) of all that is there, each content once."""
    found = {}
    for room in rooms(top):
        for folder, _, files in os.walk(os.fsencode(os.path.join(top, room, "files"))):
            for name in files:
                try:
                    info = os.lstat(os.path.join(folder, name))
                except OSError:
                    continue
                if stat.S_ISREG(info.st_mode):
                    found[info.st_dev, info.st_ino] = info.st_size
    return len(found), sum(found.values())


# --- in use, and no more -------------------------------------------------------------------------


def in_use(top):
    """(the version that runs get, the lock that keeps it here); ("", None) where there is none."""
    for _ in range(100):
        version = current(top)
        if not version:
            break
        lock = taken(top, version, fcntl.LOCK_SH)
        if lock is not None:
            if version in whole(top):
                return version, lock
            os.close(lock)
        time.sleep(0.1)  # it is about to go, or somebody looks whether it could
    return "", None


def emptied(top):
    """From now on there is no version. When something is in use, its rooms, and all stays."""
    locks = {room: taken(top, room, fcntl.LOCK_EX) for room in rooms(top)}
    busy = [room for room, lock in locks.items() if lock is None]
    try:
        if not busy:
            blobs.unlink(os.path.join(top, "current"))
            for room in locks:
                blobs.unlink(os.path.join(top, room, "tree"))
    finally:  # before they are removed: NFS keeps what is open, and the folder around it
        for lock in locks.values():
            if lock is not None:
                os.close(lock)
    return busy


def forgotten(top, keep):
    """Removes all but one version, also what cut pushes have left. What is in use stays."""
    for room in rooms(top):
        lock = taken(top, room, fcntl.LOCK_EX) if room != keep else None
        if lock is not None:
            blobs.unlink(os.path.join(top, room, "tree"))
            os.close(lock)
            if room.startswith("."):  # its maker may just have come back to it
                shutil.rmtree(os.path.join(top, room), ignore_errors=True)
            else:
                removed(os.path.join(top, room))


def removed(path):
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        raise Failure("%s could not be removed whole" % path, "", "look what is in it, and why")


def taken(top, room, kind):
    """The lock of a room; None where somebody else has it, or where the room has just gone."""
    try:
        lock = os.open(os.path.join(top, room, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:
        pass  # a filesystem without locks
    return lock
