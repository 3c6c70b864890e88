"""Files by content under ROOT/blobs/sha256: find which are here, and receive the others.

A blob has its final name only once its bytes are complete, hashed and on disk. Until then it is a
part, locked by its writer. Small parts of a killed writer are removed; a large one keeps its
name, so that the next try, by any process, goes on where it ended. If two processes want the same
large blob at the same time, even on two hosts with one home, the second one waits for the first.
"""

import fcntl
import os
import queue
import re
import stat
import time
from contextlib import contextmanager

from ipexctl.common.blob_answers import BlobsAwaited, BlobsMissing, BytesArrived
from ipexctl.common.files import hash_of
from ipexctl.common.locks import is_named, try_lock
from ipexctl.common.tolerant_reads import info_of, size_of
from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import io
    from collections.abc import Callable, Iterable, Iterator

    from ipexctl.remote.main import Call, Emitter

    FileId = tuple[int, ...]

SHA = re.compile(r"[0-9a-f]{64}\Z")
RESUMED = 4 << 20  # from this size on a part is worth keeping
KEPT = 7 * 86400  # seconds that a large part waits for its next try
BEAT = 5.0  # seconds between signs of life: only a process that writes notices a dead connection
QUIET = 300.0  # a controller that sends nothing for this many seconds is gone
hashes = {}  # type: dict[FileId, str]  # of files that this agent has hashed or written


def op_have(call: "Call", root: str, blobs: "list[tuple[str, int]]") -> BlobsMissing:
    """Say which of `blobs`, each a sha256 and size, are not here."""
    root = root_folder.check_existing_root(root)
    return BlobsMissing([sha for sha, size in blobs if not has_blob(root, sha, size)])


def op_put(
    call: "Call", root: str, blobs: "list[tuple[str, int]]", room: "tuple[int, int] | None" = None
) -> None:
    """Receive `blobs`, each a sha256 and size, in frames that follow the request. `room`: bytes and
    files that will be needed afterwards.

    BlobsAwaited says which blobs are to come and where each begins; they come in the order of the
    request. A frame holds bytes of one blob only; each is answered with BytesArrived.
    """
    root = root_folder.prepare_root(root)
    blobs = list(dict(blobs).items())
    extra, files = room or (0, 0)
    parts = root_folder.make_subfolder(root, "blobs", "parts")
    remove_dead_parts(parts)
    large = {}  # type: dict[str, BlobPart | None]
    try:
        for sha, size in sorted(blobs):  # the same order for all agents: no two wait for each other
            if size >= RESUMED:
                large[sha] = claim_part(call, root, sha, size)
        missing = [(sha, size) for sha, size in blobs if not has_blob(root, sha, size)]
        begins = {sha: resume_offset(large.get(sha), size) for sha, size in missing}
        needed = sum(size - begins[sha] for sha, size in missing)
        root_folder.need_space(root, needed + extra, len(missing) + files)
        call.emit(BlobsAwaited(begins).document())
        for sha, size in missing:
            receive_blob(call, root, large.get(sha) or new_part(parts, sha), sha, size)
    finally:
        for part in large.values():
            if part:
                part.close()


# --- also used by the other modules --------------------------------------------------------------


def path_of(root: str, sha: str) -> str:
    if not isinstance(sha, str) or not SHA.match(sha):  # hosts of a run send it, too
        raise Failure("%r is not a sha256" % (sha,), slug="invalid-request")
    return os.path.join(root, "blobs", "sha256", sha[:2], sha)


def large_part(root: str, sha: str) -> str:
    return os.path.join(root, "blobs", "parts", sha + ".part")


def part_size(root: str, sha: str) -> int:
    return size_of(large_part(root, sha))


def has_blob(root: str, sha: str, size: int) -> bool:
    info = info_of(path_of(root, sha))
    return info is not None and stat.S_ISREG(info.st_mode) and info.st_size == size


def verify_blobs(root: str, shas: "Iterable[str]") -> None:
    """Check blobs again, as a disk can lose data. Damaged blobs are removed, to be sent again."""
    paths = [(path_of(root, sha), sha) for sha in shas]
    damaged = [path for path, sha in paths if not has_content(path, sha, known_by=stamp_of)]
    for path in damaged:
        try_unlink(path)
    if damaged:
        raise damage_failure(", ".join(damaged))


def file_id(info: "os.stat_result") -> "FileId":
    """Return an id of a file's content, the same under all its names; a write changes it."""
    if not stat.S_ISREG(info.st_mode):
        return ()
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def stamp_of(info: "os.stat_result") -> "FileId":
    """Return a stricter id: it also changes with a new name, or a write that resets the time."""
    return file_id(info) and (*file_id(info), info.st_ctime_ns)


def has_content(
    path: "str | bytes", sha: str, known_by: "Callable[[os.stat_result], FileId]" = file_id
) -> bool:
    """Decide whether it is a regular file with this content. An agent reads a file once."""
    try:
        key = known_by(os.lstat(path))
        if key and key not in hashes:
            with open(path, "rb") as file:
                hashes[key] = hash_of(file).hexdigest()
    except OSError:
        return False
    return hashes.get(key) == sha


def remember_hash(path: "str | bytes", sha: str) -> None:
    """Remember the content of a file that this agent has just written."""
    info = os.lstat(path)
    hashes[file_id(info)] = hashes[stamp_of(info)] = sha


# --- taking in -----------------------------------------------------------------------------------


class BlobPart:
    """The open, locked file of a blob that is incomplete yet."""

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self.file = os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600), "r+b", 0)

    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    def close(self) -> None:
        self.file.close()


def new_part(parts: str, sha: str) -> "BlobPart":
    name = "%s.%d-%s" % (sha[:16], os.getpid(), os.urandom(4).hex())
    part = BlobPart(os.path.join(parts, name), os.O_CREAT | os.O_EXCL)
    try_lock(part.file.fileno())
    return part


def claim_part(call: "Emitter", root: str, sha: str, size: int) -> "BlobPart | None":
    """Open and lock the part of a large blob; None if another process has completed the blob."""
    while not has_blob(root, sha, size):
        part = BlobPart(large_part(root, sha), os.O_CREAT)
        wait_for_lock(call, part.file.fileno())
        if is_named(part.file.fileno(), part.path):
            return part
        part.close()
    return None


def resume_offset(part: "BlobPart | None", size: int) -> int:
    """Return how many bytes of the blob an earlier try has left in the part."""
    if not part:
        return 0
    if part.size() > size:
        part.file.truncate(0)
    return part.size()


def receive_blob(call: "Call", root: str, part: "BlobPart", sha: str, size: int) -> None:
    try:
        fill_part(root, part, sha, size, lambda offset: receive_bodies(call, size - offset))
    finally:
        if size < RESUMED:
            try_unlink(part.path)  # unless it has its final name already
            part.close()


def fill_part(
    root: str, part: "BlobPart", sha: str, size: int, rest: "Callable[[int], Iterable[bytes]]"
) -> None:
    """Complete the part and make it the blob. `rest(offset)` yields the bytes from there on."""
    try:
        part.file.seek(0)
        digest = hash_of(part.file)
        for piece in rest(part.file.tell()):
            digest.update(piece)
            write_all(part.file.write, piece)
        if digest.hexdigest() != sha or part.size() != size:
            try_unlink(part.path)
            raise Failure(
                "a file arrived damaged and was discarded",
                "its sha256 is %s... and its size %d bytes, instead of %s... and %d"
                % (digest.hexdigest()[:16], part.size(), sha[:16], size),
                "run the same command again",
                slug="damaged",
            )
        store_part(root, part, sha)
    except OSError as e:
        try_unlink(part.path)
        raise root_folder.write_failure(e, root, size) from None


def store_part(root: str, part: "BlobPart", sha: str) -> None:
    """Give a complete part its final name."""
    os.fsync(part.file.fileno())
    root_folder.make_subfolder(root, "blobs", "sha256", sha[:2])
    os.rename(part.path, path_of(root, sha))
    remember_hash(path_of(root, sha), sha)


def receive_bodies(call: "Call", remaining: int) -> "Iterator[bytes]":
    """Yield `remaining` bytes from the controller as they come, and report each piece received."""
    while remaining:
        body = next_body(call)
        if not body or len(body) > remaining:
            raise Failure(
                "%d bytes arrived where %d were expected" % (len(body), remaining), slug="damaged"
            )
        yield body
        remaining -= len(body)
        call.emit(BytesArrived(len(body)).document())


def write_all(write: "Callable[[memoryview], int]", data: "bytes | memoryview") -> None:
    """Write all of the data: a single write may take only a part."""
    view = memoryview(data)
    while view:
        view = view[write(view) :]


def next_body(call: "Call") -> bytes:
    """Return the next bytes from the controller. Raise Failure if it stops or is silent."""
    began = time.time()
    while True:
        try:
            frame = call.inbox.get(timeout=BEAT)
        except queue.Empty:
            if time.time() - began > QUIET:
                raise Failure(
                    "the controller sent nothing for %d s" % QUIET, slug="transfer-stopped"
                ) from None
            call.emit({"event": "alive"})
            continue
        if frame is None or frame[0].get("abort"):
            raise Failure("the controller stopped sending", slug="transfer-stopped")
        return frame[1]


def wait_for_lock(call: "Emitter", fd: int, kind: int = fcntl.LOCK_EX) -> None:
    """Lock the file once no other process holds it; report every few seconds that it waits."""
    reported = 0.0
    while not try_lock(fd, kind):
        if time.time() - reported > BEAT:
            reported = time.time()
            call.emit({"event": "waiting"})
        time.sleep(0.2)


def open_lock(root: str) -> int:
    path = os.path.join(root_folder.make_subfolder(root, "blobs"), ".lock")
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def lock_against_removal(call: "Emitter", root: str) -> int:
    """Return an open lock: until it is closed, no blob, pack or list of files is removed."""
    fd = open_lock(root)
    wait_for_lock(call, fd, fcntl.LOCK_SH)
    return fd


@contextmanager
def lock_for_removal(root: str) -> "Iterator[bool]":
    """Yield whether blobs may be removed now: not while another process protects them. Keep the
    block short: processes that start wait for its end."""
    fd = open_lock(root)
    try:
        yield try_lock(fd)
    finally:
        os.close(fd)


def remove_blobs(root: str, shas: "Iterable[str]") -> None:
    """Remove blobs whose content is in place; while a process locks them, leave them to prune."""
    with lock_for_removal(root) as free:
        for sha in shas if free else ():
            try_unlink(path_of(root, sha))


def remove_dead_parts(parts: str) -> None:
    """Remove parts of killed writers. The minute covers the moment between open and lock."""
    for name in os.listdir(parts):
        path = os.path.join(parts, name)
        try:
            age = time.time() - os.lstat(path).st_mtime
            if age < (KEPT if name.endswith(".part") else 60):
                continue
            fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if try_lock(fd):
                try_unlink(path)
        finally:
            os.close(fd)


def try_unlink(path: "str | bytes") -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def open_stored(path: str) -> "io.BufferedReader":
    try:
        return open(path, "rb")
    except FileNotFoundError:  # removed by hand, or on a file system without locks
        raise Failure(
            "a file that was to be copied has disappeared: %s" % path,
            "",
            "run the same command again: the file is sent again",
            slug="damaged",
        ) from None


def damage_failure(paths: str) -> "Failure":
    return Failure(
        "corrupt on this host's disk, and removed: %s" % paths,
        "the content does not have the recorded sha256",
        "run the same command again: the file is sent again",
        slug="damaged",
    )
