"""Files by content under ROOT/blobs/sha256: what is here, and taking in what is not.

A blob has its final name only once its bytes are whole, hashed and on the disk. Until then it is a
part, locked by whoever writes it, so that parts of a killed writer can be told and removed.
"""

import errno
import fcntl
import hashlib
import os
import re
import stat
import time

Failure = globals()["Failure"]  # put there by remote/main.py

SHA = re.compile(r"[0-9a-f]{64}\Z")
SPARE = 64 << 20  # left free for everything else that writes to this disk
SPARE_INODES = 1000


def op_have(call, header):
    """{root, blobs: [[sha256, size], ...]} -> {missing: [sha256, ...], root}"""
    root = root_folder(header["root"])
    missing = [sha for sha, size in wanted(header) if not is_here(root, sha, size)]
    return {"missing": missing, "root": root}


def op_put(call, header):
    """{root, blobs: [[sha256, size], ...]}, then frames whose bodies are their bytes in that order.

    {"event": "got", "bytes": 0} says: go on. A frame holds bytes of one blob only; each is answered
    with {"event": "got", "bytes": n}.
    """
    root = root_folder(header["root"])
    blobs = wanted(header)
    need_space(root, sum(size for _, size in blobs), len(blobs))
    parts = folder(root, "blobs", "parts")
    remove_dead_parts(parts)
    call.emit({"event": "got", "bytes": 0})
    for sha, size in blobs:
        take(call, root, parts, sha, size)
    return {"count": len(blobs)}


# --- also used by the other modules --------------------------------------------------------------


def root_folder(text):
    """The root as an absolute path that is ours alone; made when it is not there."""
    if not isinstance(text, str) or not text or "\0" in text:
        raise Failure("the root folder %r is not a path" % (text,), slug="input")
    root = os.path.expanduser(text)
    if not os.path.isabs(root):
        raise Failure(
            "the root folder %s is not absolute" % text, hint="--root /some/folder", slug="input"
        )
    root = os.path.normpath(root)
    try:
        os.makedirs(root, 0o700, exist_ok=True)
        found = os.stat(root)
    except OSError as e:
        raise Failure(
            "cannot make the folder %s" % root, str(e), "--root FOLDER   # one you may write to"
        ) from None
    if found.st_uid != os.geteuid():
        raise Failure(
            "%s belongs to another user (uid %d)" % (root, found.st_uid),
            "whoever owns the folder could change what is run from it",
            "--root FOLDER   # one of your own",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Failure(
            "%s can be written to by other users" % root,
            "they could change what is run from it",
            "chmod go-w %s" % root,
        )
    return root


def folder(root, *names):
    """A folder below the root, level by level: makedirs gives its mode to the last one only."""
    path = root
    for name in names:
        path = os.path.join(path, name)
        try:
            os.mkdir(path, 0o700)
        except OSError as e:
            if e.errno != errno.EEXIST or not os.path.isdir(path):
                raise Failure("cannot make the folder %s" % path, str(e)) from None
    return path


def checked(sha):
    if not isinstance(sha, str) or not SHA.match(sha):
        raise Failure("%r is not a sha256" % (sha,), slug="input")
    return sha


def path_of(root, sha):
    checked(sha)
    return os.path.join(root, "blobs", "sha256", sha[:2], sha)


def is_here(root, sha, size):
    try:
        found = os.lstat(path_of(root, sha))
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def verify(root, sha):
    """A disk can lose what it was given. What is no longer the blob is removed, to come again."""
    path = path_of(root, sha)
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for chunk in iter(lambda: file.read(1 << 20), b""):
                digest.update(chunk)
    except OSError as e:
        raise Failure("cannot read the blob %s" % sha[:16], str(e)) from None
    if digest.hexdigest() != sha:
        unlink(path)
        raise Failure(
            "a file was damaged on the disk of this host: %s" % path,
            "it was removed",
            "run the same command again: it is sent anew",
            "damaged",
        )


def need_space(root, size, count):
    disk = os.statvfs(root)
    free = disk.f_bavail * disk.f_frsize
    if size and free < size + SPARE:
        raise Failure(
            "not enough disk space in %s: %s more are needed, %s are free"
            % (root, human(size + SPARE), human(free)),
            "a file that does not fit whole is of no use",
            "--root FOLDER   # on a bigger disk; or free some space",
            "no-space",
        )
    if disk.f_files and count and disk.f_favail < count + SPARE_INODES:
        raise Failure(
            "not enough inodes in %s: %d are free" % (root, disk.f_favail),
            "",
            "--root FOLDER   # on another disk",
            "no-space",
        )


def human(size):
    return "%.1f GB" % (size / 1e9) if size >= 1e9 else "%.0f MB" % (size / 1e6)


# --- taking in -----------------------------------------------------------------------------------


def wanted(header):
    blobs = []
    for sha, size in header["blobs"]:
        if not isinstance(size, int) or size < 0:
            raise Failure("%r is not a size" % (size,), slug="input")
        blobs.append((checked(sha), size))
    return blobs


def take(call, root, parts, sha, size):
    path = path_of(root, sha)
    part = os.path.join(parts, "%s.%d-%s" % (sha[:16], os.getpid(), os.urandom(4).hex()))
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        lock(fd)
        digest = receive(call, fd, size)
        if digest != sha:
            raise Failure(
                "a file arrived damaged: sha256 %s... instead of %s..." % (digest[:16], sha[:16]),
                "nothing of it was kept",
                "run the same command again",
                "damaged",
            )
        os.fsync(fd)
        folder(root, "blobs", "sha256", sha[:2])
        os.rename(part, path)
    except OSError as e:
        unlink(part)
        raise Failure(
            "cannot write to %s: %s" % (root, e.strerror or e),
            slug="no-space" if e.errno in (errno.ENOSPC, errno.EDQUOT) else "host-failed",
        ) from None
    except BaseException:
        unlink(part)
        raise
    finally:
        os.close(fd)


def receive(call, fd, size):
    digest = hashlib.sha256()
    left = size
    while left:
        frame = call.recv()
        if frame is None or frame[0].get("abort"):
            raise Failure("the controller stopped sending")
        body = frame[1]
        if not body or len(body) > left:
            raise Failure("%d bytes came where %d were left" % (len(body), left), slug="damaged")
        view = memoryview(body)
        while view:
            view = view[os.write(fd, view) :]
        digest.update(body)
        left -= len(body)
        call.emit({"event": "got", "bytes": len(body)})
    return digest.hexdigest()


def lock(fd):
    """True when nobody else holds it (or the filesystem has no locks)."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        return e.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def remove_dead_parts(parts):
    """What a killed writer left. The minute's age covers the moment between open and lock."""
    for name in os.listdir(parts):
        path = os.path.join(parts, name)
        try:
            if time.time() - os.lstat(path).st_mtime < 60:
                continue
            fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if lock(fd):
                unlink(path)
        finally:
            os.close(fd)


def unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass
