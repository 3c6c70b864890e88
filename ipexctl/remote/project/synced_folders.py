"""Folders by content: find which of their files the host has, and copy them to a run's folder.

Large files are blobs, small ones are in packs. What is read from either is hashed again, so none of
it needs to be on the disk at the reply. From the first reply until all files are in place, a lock
is held (blobs.keep), so that nothing that was found here is removed meanwhile.

Paths are bytes here: a Python in the locale C of a host could not even name what is not ASCII.
"""

import hashlib
import json
import os
import shutil
import time
import zlib

from ipexctl.common.files import hash_of, write_atomic
from ipexctl.common.folder_answers import (
    CopyMade,
    FilesMissing,
    FolderAnswer,
    ListUnknown,
    PathsAbsent,
    ScriptFound,
)
from ipexctl.common.tolerant_reads import changed_at
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs, packs
from ipexctl.remote.failure import Failure
from ipexctl.remote.project import ended_copy
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Sequence
    from typing import IO, Any

    from ipexctl.remote.main import Call

    Tree = dict[str, Any]

PACKED = 256 * 1024  # as on the controller
PACKS = 24  # when there are more, the least recently used one is removed
KEPT = 30 * 86400
CLONE = 0x40049409  # ioctl FICLONE: a copy that shares its blocks, on btrfs and xfs
claims = {}  # type: dict[str, Claim]  # by folder: those that this agent is making


class Claim:
    """A run's folder that this agent is making: its locks, and the ended run that helps."""

    def __init__(self, mark: int, removal: int) -> None:
        self.mark, self.removal = mark, removal
        self.tree = None  # type: Tree | None  # the list of the folder's files
        self.copy = None  # type: ended_copy.EndedCopy | None
        self.in_copy = set()  # type: set[str]  # paths of the files that are unchanged there
        self.whole = set()  # type: set[str]  # folders of which that is so of all that they hold

    def begin(self, root: str, run: str, tree: "Tree", copies: int) -> None:
        self.tree = tree
        self.copy = ended_copy.find_ended_copy(root, run, tree, copies)
        if self.copy:
            self.in_copy = self.copy.find_unchanged(tree["files"])
            self.whole = self.copy.whole_folders(tree, self.in_copy)

    def take_folder(self, name: str, path: bytes) -> bool:
        return self.copy is not None and name in self.whole and self.copy.take_folder(name, path)

    def take(self, row: "ended_copy.Row", path: bytes) -> "ended_copy.Stamp | None":
        return self.copy.take(row, path) if self.copy and row[0] in self.in_copy else None

    def release(self) -> None:
        if self.copy:
            self.copy.close()
        os.close(self.mark)
        os.close(self.removal)


def op_make(
    call: "Call",
    root: str,
    run_id: str,
    key: str,
    cwd: str,
    copies: int = 1,
    came: "Sequence[packs.Pack]" = (),
) -> FolderAnswer:
    """Make the run's project copy. The body is the list of files, or nothing if it should be known
    here. `copies`: how many of the newest runs keep their project copies.

    What is missing comes as blobs; the next request names the packs that `came`.

    Hosts with one home share the run's folder. The first to ask makes it, until it is complete
    or op_drop; the others wait. They all find the same mark.
    """
    root = root_folder.prepare_root(root)
    run = run_folder(root, run_id)
    if not claim_run(call, root, run):
        return place_of(run, cwd)
    claim = claims[run]
    tree = claim.tree or read_file_list(root, key, call.body)
    if tree is None:
        return ListUnknown()
    try:
        packs.store_packs(root, came)
    except OSError as e:
        raise root_folder.write_failure(e, root, sum(size for _, size, _, _ in came)) from None
    stored = packs.Packs(root)
    if claim.tree is None:
        claim.begin(root, run, tree, copies)
    needed = [i for i, row in enumerate(tree["files"]) if row[0] not in claim.in_copy]
    missing = [i for i in needed if not is_stored(root, stored, tree["files"][i])]
    if needed:
        stored.touch(tree)
    if missing:
        return missing_of(missing, len(tree["files"]))
    place = lay_out(root, run, tree, stored, key, cwd)
    if came:  # not before: an old pack may hold files of this folder
        with blobs.lock_for_removal(root) as free:
            if free:
                remove_unused_files(os.path.join(root, "blobs", "packs"), KEPT, PACKS)
    return place


def is_stored(root: str, stored: "packs.Packs", row: "ended_copy.Row") -> bool:
    _, sha, size, _ = row
    return stored.has(sha, size) if size <= PACKED else blobs.has_blob(root, sha, size)


def missing_of(missing: "list[int]", count: int) -> FilesMissing:
    """Say which of `count` files are missing; one bit each, as a list can exceed a header."""
    bits = bytearray((count + 7) // 8)
    for i in missing:
        bits[i // 8] |= 1 << i % 8
    return FilesMissing(bits.hex())


def op_drop(call: "Call", root: str, run_id: str, **make: object) -> None:
    """Give up what op_make began: it will not be completed. Another host that waits takes over."""
    release_claims(run_folder(root_folder.prepare_root(root), run_id))


def op_find_script(call: "Call", folder: str, home: str, script: str) -> ScriptFound:
    """Find the script on this host, for --no-sync. `home`: the folder's path below the user's home
    on the controller, "" if it is not below it."""
    folders = [folder] + ([os.path.join(os.path.expanduser("~"), home)] * bool(home))
    for path in map(encode_path, folders):
        if os.path.exists(os.path.join(path, encode_path(script)) if script else path):
            return ScriptFound(os.fsdecode(path))
    raise Failure(
        "there is no %s in %s" % (script or "folder", folder),
        "with --no-sync nothing is sent",
        "leave out --no-sync, or put it there",
        slug="script-not-on-host",
    )


def op_find_absent(call: "Call", root: str, paths: "list[str]") -> PathsAbsent:
    """Say which paths certainly do not exist on this host."""
    return PathsAbsent([i for i, path in enumerate(paths) if _is_absent(encode_path(path))])


def _is_absent(path: bytes) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # such as a folder that this account may not read
    return False


# --- lists of files ------------------------------------------------------------------------------


def read_file_list(root: str, key: str, body: bytes) -> "Tree | None":
    """Return the list of a folder's files, from the request or an earlier one; None without one."""
    path = os.path.join(root_folder.make_subfolder(root, "blobs", "trees"), key)
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
        raise Failure(
            "the list of files arrived damaged", "", "run the same command again", slug="damaged"
        )
    if body:
        write_atomic(path, data, mode=None)
        remove_unused_files(os.path.dirname(path), KEPT)
    tree: "Tree" = json.loads(data.decode("ascii"))
    return tree


def remove_unused_files(folder: str, age: float, most: "int | None" = None) -> None:
    """Remove files unused for `age` seconds, and all but the `most` recently used ones."""
    paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    limit = time.time() - age
    newest_first = sorted(((changed_at(path), path) for path in paths), reverse=True)
    for i, (used_at, path) in enumerate(newest_first):
        if used_at < limit or (most is not None and i >= most):
            blobs.try_unlink(path)


# --- laying out ----------------------------------------------------------------------------------


def run_folder(root: str, run_id: str) -> str:
    return root_folder.make_subfolder(root, "runs", run_folders.checked_id(run_id))


def claim_run(call: "Call", root: str, run: str) -> bool:
    """Lock the run's folder to make its files; False if they have been made."""
    run_folders.hold_folder(run)
    if run not in claims:
        lock = os.open(os.path.join(run, "mark"), os.O_RDWR | os.O_CREAT, 0o600)
        blobs.wait_for_lock(call, lock)
        claims[run] = Claim(lock, blobs.lock_against_removal(call, root))
    if os.path.isdir(os.path.join(run, "work")):
        release_claims(run)
        return False
    return True


def release_claims(run: str) -> None:
    claim = claims.pop(run, None)
    if claim:
        claim.release()


def lay_out(
    root: str, run: str, tree: "Tree", stored: "packs.Packs", key: str, cwd: str
) -> CopyMade:
    """Make the run's project copy from stored files, under its final name once it is complete."""
    size = sum(size for _, _, size, _ in tree["files"])
    root_folder.need_space(root, size, len(tree["files"]))
    work = os.fsencode(os.path.join(run, "work"))
    part = work + b"." + os.urandom(8).hex().encode()
    try:
        os.mkdir(part, 0o700)
        ended_copy.record_stamps(run, fill_folder(root, stored, part, tree, claims[run]))
        keep_tree(root, run, key)
        os.makedirs(checked_path_below(part, cwd) if cwd else part, 0o700, exist_ok=True)
        os.pwrite(claims[run].mark, os.urandom(8).hex().encode(), 0)
        rename_into_place(part, work)
    except OSError as e:
        raise root_folder.write_failure(e, root, size) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    release_claims(run)
    return place_of(run, cwd)


def keep_tree(root: str, run: str, key: str) -> None:
    """Keep the list of the original files: those that do not change can be removed later."""
    path, copy = os.path.join(root, "blobs", "trees", key), os.path.join(run, "tree")
    if not os.path.lexists(copy):
        with open(path, "rb") as source:
            write_atomic(copy, source.read())


def rename_into_place(part: bytes, work: bytes) -> None:
    try:
        os.rename(part, work)
    except OSError:
        if not os.path.isdir(work):  # on a filesystem without locks another host was first
            raise


def place_of(run: str, cwd: str) -> CopyMade:
    work = os.fsencode(os.path.join(run, "work"))
    folder = checked_path_below(work, cwd) if cwd else work
    with open(os.path.join(run, "mark")) as file:
        return CopyMade(os.fsdecode(folder), file.read())


def fill_folder(
    root: str, stored: "packs.Packs", work: bytes, tree: "Tree", claim: "Claim"
) -> "dict[str, ended_copy.Stamp]":
    """Create the folders, files and links of the list in the empty folder `work`. Return the stamp
    of each file."""
    stamps, moved = {}, set()  # folders that came whole
    for name in sorted(tree["folders"]):
        path = checked_path_below(work, name)
        if folder_above(name) in moved or claim.take_folder(name, path):
            moved.add(name)
        else:
            os.mkdir(path, 0o700)
    for row in tree["files"]:
        if folder_above(row[0]) in moved:
            assert claim.copy
            stamps[row[0]] = claim.copy.stamps[row[0]]
            continue
        path = checked_path_below(work, row[0])
        stamps[row[0]] = claim.take(row, path) or place_file(root, stored, path, row)
    for name, target in tree["links"]:
        if folder_above(name) not in moved:
            make_link(work, name, target)
    return stamps


def folder_above(name: str) -> str:
    return name.rpartition("/")[0]


def place_file(
    root: str, stored: "packs.Packs", path: bytes, row: "ended_copy.Row"
) -> "ended_copy.Stamp":
    """Make the file from what is stored, and return its stamp."""
    _, sha, size, executable = row
    mode = 0o700 if executable else 0o600
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        if size <= PACKED:
            write_bytes(fd, stored.read_content(sha) if size else b"")
        else:
            copy_blob(blobs.path_of(root, sha), fd, sha)
        return ended_copy.stamp_of(os.fstat(fd))
    finally:
        os.close(fd)


def copy_blob(path: str, fd: int, sha: str) -> None:
    """Copy a blob, as a run may write to its files; on btrfs and xfs the copy shares its blocks."""
    with blobs.open_stored(path) as source:
        if clone_blocks(source, fd):
            is_intact = blobs.has_content(path, sha)
        else:
            is_intact = hash_of(source, lambda piece: write_bytes(fd, piece)).hexdigest() == sha
    if not is_intact:
        blobs.try_unlink(path)
        raise blobs.damage_failure(path)


def clone_blocks(source: "IO[bytes]", fd: int) -> bool:
    import fcntl

    try:
        fcntl.ioctl(fd, CLONE, source.fileno())
    except OSError:
        return False
    return True


def write_bytes(fd: int, data: "bytes | memoryview") -> None:
    blobs.write_all(lambda view: os.write(fd, view), data)


def make_link(work: bytes, name: str, target: str) -> None:
    path = checked_path_below(work, name)
    os.symlink(encode_path(target), path)
    if not (os.path.realpath(path) + b"/").startswith(os.path.realpath(work) + b"/"):
        os.unlink(path)
        raise Failure("the link %r leads out of the run's folder" % name, slug="path-leads-out")


def checked_path_below(work: bytes, name: str) -> bytes:
    """Return the path of a name below `work`; refuse names that are not plain relative paths."""
    raw = encode_path(name)
    if any(part in (b"", b".", b"..") for part in raw.split(b"/")) or b"\0" in raw:
        raise Failure("the path %r leads out of the run's folder" % name, slug="path-leads-out")
    return os.path.join(work, raw)


def encode_path(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
