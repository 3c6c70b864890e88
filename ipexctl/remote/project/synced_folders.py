"""Folders by content: what of them is here, and laying them out as a run's own copy.

Small files are not blobs of their own: thousands of them would cost thousands of files more. They
come many in one frame and are kept as they came, in packs. What is read from a pack or a blob is
hashed again, so none of it needs to be on the disk when we answer. From our answer on until all is
laid out we hold a lock (blobs.keep), so that nothing that was found here is removed meanwhile.

Paths are bytes here: a Python in the locale C of a host could not even name what is not ASCII.
"""

import hashlib
import json
import os
import shutil
import struct
import time
import zlib

from ipexctl.remote import durable, root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.failure import Failure
from ipexctl.remote.project import spare_copies
from ipexctl.remote.run_files import run_folders

PACKED = 256 * 1024  # as on the controller
MANY = 100000  # indices in one frame
PACKS = 24  # when there are more, the one that was used longest ago goes
KEPT = 30 * 86400
HEAD = struct.Struct(">4sI")
MAGIC = b"ipx1"
CLONE = 0x40049409  # ioctl FICLONE: a copy that shares its blocks, on btrfs and xfs
claims = {}  # type: dict[str, list[int]]  # folders that this agent makes now, and their locks


def op_make(call, h):
    """{root, run_id, key, cwd}, body: the manifest, or nothing if it should be known here.

    -> {cwd, mark} once all is there; {lacks: true} without the manifest; {missing: how many}, after
    events {"event": "missing", "files": [index, ...]}

    Hosts with one home share the run's folder. Who comes first makes it, from here to the end of
    op_fill; the others wait. They all find the same mark.
    """
    root = root_folder.checked(h["root"])
    run = run_folder(h)
    if not claim_run(call, root, run):
        return place_of(run, h)
    tree = manifest(root, h["key"], call.body)
    if tree is None:
        return {"lacks": True}
    packs = Packs(root)
    missing = [
        i
        for i, (_, sha, size, _) in enumerate(tree["files"])
        if not (packs.has(sha, size) if size <= PACKED else blobs.has(root, sha, size))
    ]
    packs.touch(tree)
    if missing:
        return report_missing(call, missing)
    return lay_out(root, run, tree, packs, h)


def report_missing(call, missing):
    """One frame with all of them would be too large for the other side."""
    for at in range(0, len(missing), MANY):
        call.emit({"event": "missing", "files": missing[at : at + MANY]})
    return {"missing": len(missing)}


def op_fill(call, h):
    """The same arguments, and {files: [[sha256, size], ...]}: small ones, whose bytes follow.

    Each frame has {"files": n, "z": whether it is compressed} and the bytes of the next n files.
    """
    root = root_folder.checked(h["root"])
    run = run_folder(h)
    tree = manifest(root, h["key"], b"")
    if tree is None:
        raise Failure("the list of files is gone", "", "run the same command again")
    expected = blobs.wanted_blobs({"blobs": h["files"]})
    root_folder.need_space(root, 2 * sum(size for _, size in expected), len(tree["files"]))
    try:
        if expected:
            add_pack(root, expected, contents(call, expected))
    except OSError as e:
        raise root_folder.write_failure(e, root, sum(size for _, size in expected)) from None
    place = lay_out(root, run, tree, Packs(root), h)
    with blobs.removal(root) as free:  # not before: an old pack may be one of this folder's
        if free:
            expire(os.path.join(root, "blobs", "packs"), KEPT, PACKS)
    return place


def op_drop(call, h):
    """The same arguments: it will not be filled. Who waits for it makes it."""
    release(run_folder(h))
    return {}


def op_keep_spare(call, h):
    """{root, key} -> {}: a copy of the same for the next run, made while this one computes."""
    root = root_folder.checked(h["root"])
    kept = blobs.keep(call, root)
    try:
        tree = manifest(root, h["key"], b"")
        small = small_files(tree or spare_copies.EMPTY)
        most = h.get("most", spare_copies.MOST)
        if small["files"] and sum(size for _, _, size, _ in tree["files"]) <= most:
            spare_copies.lowest_priority()
            packs, empty = Packs(root), spare_copies.EMPTY
            spare_copies.make(
                root, h["key"], lambda path: update_folder(root, packs, path, empty, small)
            )
    finally:
        os.close(kept)
    return {}


def op_find_script(call, h):
    """{folder, home, script} -> {cwd}: where the script is on this host, for --no-sync.

    `home` is the folder's path below the user's home there, "" if it is not below it.
    """
    folders = [h["folder"]] + ([os.path.join(os.path.expanduser("~"), h["home"])] * bool(h["home"]))
    for folder in map(encoded, folders):
        script = os.path.join(folder, encoded(h["script"])) if h["script"] else folder
        if os.path.exists(script):
            return {"cwd": os.fsdecode(folder)}
    raise Failure(
        "there is no %s in %s" % (h["script"] or "folder", h["folder"]),
        "with --no-sync nothing is sent",
        "leave out --no-sync, or put it there",
        "input",
    )


# --- what is to be there -------------------------------------------------------------------------


def manifest(root, key, body):
    """What a folder consists of; None if this host has not been told."""
    path = os.path.join(root_folder.subfolder(root, "blobs", "trees"), blobs.checked_sha(key))
    if body:
        data = zlib.decompress(body)
    else:
        try:
            with open(path, "rb") as file:
                data = file.read()
            os.utime(path, None)
        except OSError:
            return None
    if hashlib.sha256(data).hexdigest() != key:
        if not body:
            return None
        raise Failure("the list of files arrived damaged", "", "run the same command again")
    if body:
        write_file(path, [data])
        expire(os.path.dirname(path), KEPT)
    return json.loads(data.decode("ascii"))


def contents(call, expected):
    """The bytes of each file, checked, as they come."""
    todo = iter(expected)
    left = len(expected)
    while left:
        header, body = next_frame(call)
        if header.get("z"):
            body = zlib.decompress(body)
        at, count = 0, header["files"]
        for _ in range(count):
            sha, size = next(todo)
            data = body[at : at + size]
            if hashlib.sha256(data).hexdigest() != sha:
                raise Failure(
                    "a file arrived damaged", "it was discarded",
                    "run the same command again", "damaged",
                )  # fmt: skip
            yield data
            at += size
        left -= count
        call.emit({"event": "got"})


def next_frame(call):
    frame = call.inbox.get(timeout=blobs.QUIET)
    if frame is None or frame[0].get("abort"):
        raise Failure("the controller stopped sending")
    return frame


# --- packs ---------------------------------------------------------------------------------------


class Packs:
    """What small contents are here, in ROOT/blobs/packs."""

    def __init__(self, root):
        self.folder = root_folder.subfolder(root, "blobs", "packs")
        self.where = {}  # sha256 -> (path, offset, size)
        self.sizes = {}  # path -> bytes, of all packs
        self.files = {}  # path -> bytes
        for name in os.listdir(self.folder):
            if name.endswith(".pack"):
                self.learn(os.path.join(self.folder, name))

    def learn(self, path):
        try:
            with open(path, "rb") as file:
                magic, size = HEAD.unpack(file.read(HEAD.size))
                rows = json.loads(file.read(size).decode("ascii")) if magic == MAGIC else []
                length = os.fstat(file.fileno()).st_size
        except (OSError, ValueError, struct.error):
            rows = []
        at = HEAD.size + size if rows else 0
        for sha, count in rows:
            if at + count <= length:
                self.where[sha] = (path, at, count)
            at += count
        if rows:
            self.sizes[path] = length
        else:
            blobs.unlink(path)

    def has(self, sha, size):
        found = self.where.get(sha)
        return found is not None and found[2] == size

    def touch(self, tree):
        """They are in use, although a spare copy may save reading them."""
        for path in {self.where[sha][0] for _, sha, _, _ in tree["files"] if sha in self.where}:
            os.utime(path, None)

    def content(self, sha):
        path, at, size = self.where.get(sha, (os.path.join(self.folder, sha), 0, 0))
        if path not in self.files:
            with opened(path) as file:
                self.files[path] = memoryview(file.read())
        data = self.files[path][at : at + size]
        if hashlib.sha256(data).hexdigest() != sha:
            blobs.unlink(path)
            raise damage_failure(path)
        return data


def add_pack(root, expected, datas):
    folder = root_folder.subfolder(root, "blobs", "packs")
    index = json.dumps(expected, separators=(",", ":")).encode("ascii")
    path = os.path.join(folder, "%s.pack" % os.urandom(8).hex())
    write_file(path, datas, HEAD.pack(MAGIC, len(index)) + index)


def expire(folder, age, most=None):
    """Removes what nobody has used for so long, and what is too many."""
    found = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            found.append((os.lstat(path).st_mtime, path))
        except OSError:
            continue
    found.sort(reverse=True)
    old = time.time() - age
    for i, (used, path) in enumerate(found):
        if used < old or (most is not None and i >= most):
            blobs.unlink(path)


def write_file(path, datas, head=b"", sync=False):
    """Whole or not at all, as far as other readers see; with `sync` also after a power cut."""
    part = "%s.%d-%s" % (path, os.getpid(), os.urandom(4).hex())
    try:
        with open(part, "wb") as file:
            file.write(head)
            for data in datas:
                file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.rename(part, path)
        if sync:
            durable.sync_folder(os.path.dirname(path))
    except BaseException:
        blobs.unlink(part)
        raise


# --- laying out ----------------------------------------------------------------------------------


def run_folder(h):
    return root_folder.subfolder(root_folder.checked(h["root"]), "runs", run_folders.run_id(h))


def claim_run(call, root, run):
    """Is it ours to make the files of this run? Else they are here."""
    run_folders.hold(run)
    if run not in claims:
        lock = os.open(os.path.join(run, "mark"), os.O_RDWR | os.O_CREAT, 0o600)
        blobs.wait_for_lock(call, lock)
        claims[run] = [lock, blobs.keep(call, root)]
    if os.path.isdir(os.path.join(run, "work")):
        release(run)
        return False
    return True


def release(run):
    for lock in claims.pop(run, ()):
        os.close(lock)


def lay_out(root, run, tree, packs, h):
    size = sum(size for _, _, size, _ in tree["files"])
    root_folder.need_space(root, size, len(tree["files"]))
    work = os.fsencode(os.path.join(run, "work"))
    part = work + b"." + os.urandom(8).hex().encode()
    try:
        os.mkdir(part, 0o700)
        before = spare_copies.take(root, h["key"], small_files(tree), part)
        update_folder(root, packs, part, small_files(before or spare_copies.EMPTY), tree)
        keep_tree(root, run, h["key"])
        os.makedirs(inside(part, h["cwd"]) if h["cwd"] else part, 0o700, exist_ok=True)
        os.pwrite(claims[run][0], os.urandom(8).hex().encode(), 0)
        rename_into_place(part, work)
    except OSError as e:
        raise root_folder.write_failure(e, root, size) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    release(run)
    return place_of(run, h)


def small_files(tree):
    """Without large files: many small ones take long, and large ones a lot of room."""
    files = [row for row in tree["files"] if row[2] <= PACKED]
    return tree if len(files) == len(tree["files"]) else dict(tree, files=files)


def keep_tree(root, run, key):
    """What the run began with: what is still like that can go once the run is over."""
    path, kept = os.path.join(root, "blobs", "trees", key), os.path.join(run, "tree")
    if not os.path.lexists(kept):
        fd = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file, open(path, "rb") as source:
            shutil.copyfileobj(source, file)


def rename_into_place(part, work):
    try:
        os.rename(part, work)
    except OSError:
        if not os.path.isdir(work):  # on a filesystem without locks another host was first
            raise


def place_of(run, h):
    work = os.fsencode(os.path.join(run, "work"))
    cwd = inside(work, h["cwd"]) if h["cwd"] else work
    with open(os.path.join(run, "mark")) as file:
        return {"cwd": os.fsdecode(cwd), "mark": file.read()}


def update_folder(root, packs, work, old, new):
    """Makes the folder `work`, which is as `old` says, as `new` says."""
    if old is new:
        return
    was, now = spare_copies.by_path(old), spare_copies.by_path(new)
    for name in was:
        if now.get(name) != was[name]:
            os.unlink(inside(work, name))
    for name in sorted(set(old["folders"]).difference(new["folders"]), reverse=True):
        os.rmdir(inside(work, name))
    there = set(old["folders"])
    for name in new["folders"]:
        if name not in there:
            os.mkdir(inside(work, name), 0o700)
    for name, sha, size, executable in new["files"]:
        if was.get(name) != now[name]:
            place_file(root, packs, inside(work, name), sha, size, 0o700 if executable else 0o600)
    for name, target in new["links"]:
        if was.get(name) != now[name]:
            link(work, name, target)


def place_file(root, packs, path, sha, size, mode):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        if size <= PACKED:
            write_bytes(fd, packs.content(sha) if size else b"")
        else:
            copy(blobs.path_of(root, sha), fd, sha)
    finally:
        os.close(fd)


def copy(path, fd, sha):
    """A run may write to its files, so they are copies; where the filesystem can, without cost."""
    with opened(path) as source:
        if cloned(source, fd):
            whole = blobs.is_intact(path, sha)
        else:
            digest = hashlib.sha256()
            for chunk in iter(lambda: source.read(1 << 20), b""):
                digest.update(chunk)
                write_bytes(fd, chunk)
            whole = digest.hexdigest() == sha
    if not whole:
        blobs.unlink(path)
        raise damage_failure(path)


def cloned(source, fd):
    import fcntl

    try:
        fcntl.ioctl(fd, CLONE, source.fileno())
    except OSError:
        return False
    return True


def write_bytes(fd, data):
    blobs.write_all(lambda view: os.write(fd, view), data)


def link(work, name, target):
    path = inside(work, name)
    os.symlink(encoded(target), path)
    if not (os.path.realpath(path) + b"/").startswith(os.path.realpath(work) + b"/"):
        os.unlink(path)
        raise Failure("the link %r leads out of the run's folder" % name)


def inside(work, name):
    """The path of a name below `work`; names that are no plain relative path are refused."""
    raw = encoded(name)
    if any(part in (b"", b".", b"..") for part in raw.split(b"/")) or b"\0" in raw:
        raise Failure("the path %r leads out of the run's folder" % name)
    return os.path.join(work, raw)


encoded = spare_copies.encoded


def opened(path):
    try:
        return open(path, "rb")
    except FileNotFoundError:  # by hand, or on a filesystem without locks
        raise Failure(
            "a file that was to be copied has disappeared: %s" % path,
            "",
            "run the same command again: the file is sent again",
            "damaged",
        ) from None


def damage_failure(path):
    return Failure(
        "a file on this host's disk is corrupt: %s" % path,
        "the corrupt file has been removed",
        "run the same command again: the file is sent again",
        "damaged",
    )
