"""Files by content under ROOT/blobs/sha256: what is here, and taking in what is not.

A blob has its final name only once its bytes are whole, hashed and on the disk. Until then it is a
part, locked by whoever writes it. Small parts of a killed writer are removed; a large one keeps its
name, so that the next try goes on where it ended, whoever makes it. Two that want the same large
blob at the same time, be it from two hosts with one home, take it once: the second one waits.
"""

import fcntl
import os
import queue
import re
import stat
import time
from contextlib import contextmanager

from ipexctl.common.files import hash_of
from ipexctl.common.locks import is_named, try_lock
from ipexctl.common.tolerant_reads import info_of, size_of
from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure

SHA = re.compile(r"[0-9a-f]{64}\Z")
RESUMED = 4 << 20  # from this size on a part is worth keeping
KEPT = 7 * 86400  # seconds that a large part waits for its next try
BEAT = 5.0  # seconds between signs of life: a dead connection is noticed by those who write to it
QUIET = 300.0  # a controller that sends nothing for so long is gone
hashes = {}  # type: dict[tuple[int, ...], str]  # of files that this agent has hashed or written


def op_have(call, root, blobs):
    """{root, blobs: [[sha256, size], ...]} -> {missing: [sha256, ...]}"""
    root = root_folder.existing(root)
    return {"missing": [sha for sha, size in blobs if not has(root, sha, size)]}


def op_put(call, root, blobs, room=None):
    """{root, blobs: [[sha256, size], ...], room: [bytes, files]}, then frames with their bytes.

    `room` is what will be needed afterwards. {"event": "go", "from": {sha256: offset}} says which
    blobs are to come and where each begins; they come in the order of the request. A frame holds
    bytes of one blob only; each is answered with {"event": "got", "bytes": n}.
    """
    root = root_folder.checked(root)
    blobs = list(dict(blobs).items())
    more, files = room or (0, 0)
    parts = root_folder.subfolder(root, "blobs", "parts")
    remove_dead_parts(parts)
    large = {}
    try:
        for sha, size in sorted(blobs):  # one order for everybody: no two wait for each other
            if size >= RESUMED:
                large[sha] = claim_part(call, root, sha, size)
        missing = [(sha, size) for sha, size in blobs if not has(root, sha, size)]
        begins = {sha: resume_offset(large.get(sha), size) for sha, size in missing}
        left = sum(size - begins[sha] for sha, size in missing)
        root_folder.need_space(root, left + more, len(missing) + files)
        call.emit({"event": "go", "from": begins})
        for sha, size in missing:
            receive_blob(call, root, large.get(sha) or new_part(parts, sha), sha, size)
    finally:
        for part in large.values():
            if part:
                part.close()
    return {"count": len(blobs)}


# --- also used by the other modules --------------------------------------------------------------


def path_of(root, sha):
    if not isinstance(sha, str) or not SHA.match(sha):  # also of other hosts of a run: it is a path
        raise Failure("%r is not a sha256" % (sha,), slug="invalid-request")
    return os.path.join(root, "blobs", "sha256", sha[:2], sha)


def large_part(root, sha):
    return os.path.join(root, "blobs", "parts", sha + ".part")


def part_size(root, sha):
    return size_of(large_part(root, sha))


def has(root, sha, size):
    found = info_of(path_of(root, sha))
    return found is not None and stat.S_ISREG(found.st_mode) and found.st_size == size


def verify(root, shas):
    """A disk can lose what it was given. What is no longer the blob is removed, to come again."""
    paths = [(path_of(root, sha), sha) for sha in shas]
    damaged = [path for path, sha in paths if not has_content(path, sha, known_by=stamp_of)]
    for path in damaged:
        unlink(path)
    if damaged:
        raise damage_failure(", ".join(damaged))


def file_id(info):
    """As long as a file has this one, it was not written to; also under another name."""
    if not stat.S_ISREG(info.st_mode):
        return ()
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def stamp_of(info):
    """Also a write that sets the old time again, or another name, gives the file another one."""
    return file_id(info) and (*file_id(info), info.st_ctime_ns)


def has_content(path, sha, known_by=file_id):
    """Is it a regular file with this content? An agent reads it once."""
    try:
        found = known_by(os.lstat(path))
        if found and found not in hashes:
            with open(path, "rb") as file:
                hashes[found] = hash_of(file).hexdigest()
    except OSError:
        return False
    return hashes.get(found) == sha


def learn(path, sha):
    """This agent has just written the file."""
    info = os.lstat(path)
    hashes[file_id(info)] = hashes[stamp_of(info)] = sha


# --- taking in -----------------------------------------------------------------------------------


class Part:
    """The open, locked file of a blob that is incomplete yet."""

    def __init__(self, path, flags):
        self.path = path
        self.file = os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600), "r+b", 0)

    def size(self):
        return os.fstat(self.file.fileno()).st_size

    def close(self):
        self.file.close()


def new_part(parts, sha):
    name = "%s.%d-%s" % (sha[:16], os.getpid(), os.urandom(4).hex())
    part = Part(os.path.join(parts, name), os.O_CREAT | os.O_EXCL)
    try_lock(part.file.fileno())
    return part


def claim_part(call, root, sha, size):
    """The part of a large blob, ours alone; None when somebody else has brought the blob."""
    while not has(root, sha, size):
        part = Part(large_part(root, sha), os.O_CREAT)
        wait_for_lock(call, part.file.fileno())
        if is_named(part.file.fileno(), part.path):
            return part
        part.close()
    return None


def resume_offset(part, size):
    """How much of it an earlier try has left."""
    if not part:
        return 0
    if part.size() > size:
        part.file.truncate(0)
    return part.size()


def receive_blob(call, root, part, sha, size):
    try:
        fill(root, part, sha, size, lambda have: bodies(call, size - have))
    finally:
        if size < RESUMED:
            unlink(part.path)  # unless it has its final name by now
            part.close()


def fill(root, part, sha, size, rest):
    """The part becomes the blob. `rest` yields its bytes from the one on that it is asked for."""
    try:
        part.file.seek(0)
        digest = hash_of(part.file)
        for piece in rest(part.file.tell()):
            digest.update(piece)
            write_all(part.file.write, piece)
        if digest.hexdigest() != sha or part.size() != size:
            unlink(part.path)
            raise Failure(
                "a file arrived damaged and was discarded",
                "its sha256 is %s... and its size %d bytes, instead of %s... and %d"
                % (digest.hexdigest()[:16], part.size(), sha[:16], size),
                "run the same command again",
                slug="damaged",
            )
        store_part(root, part, sha)
    except OSError as e:
        unlink(part.path)
        raise root_folder.write_failure(e, root, size) from None


def store_part(root, part, sha):
    """Its bytes are the blob's: it gets its final name."""
    os.fsync(part.file.fileno())
    root_folder.subfolder(root, "blobs", "sha256", sha[:2])
    os.rename(part.path, path_of(root, sha))
    learn(path_of(root, sha), sha)


def bodies(call, left):
    """So many bytes, as they come from the controller, which hears of each that was taken."""
    while left:
        body = next_body(call)
        if not body or len(body) > left:
            raise Failure(
                "%d bytes arrived where %d were expected" % (len(body), left), slug="damaged"
            )
        yield body
        left -= len(body)
        call.emit({"event": "got", "bytes": len(body)})


def write_all(write, data):
    """One write may take only a part."""
    view = memoryview(data)
    while view:
        view = view[write(view) :]


def next_body(call):
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


def wait_for_lock(call, fd, kind=fcntl.LOCK_EX):
    """Locks it once no other process holds it, and says meanwhile that it waits."""
    told = 0.0
    while not try_lock(fd, kind):
        if time.time() - told > BEAT:
            told = time.time()
            call.emit({"event": "waiting"})
        time.sleep(0.2)


def open_lock(root):
    path = os.path.join(root_folder.subfolder(root, "blobs"), ".lock")
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def keep(call, root):
    """Until this is closed, no blob, pack or list of files is removed: what was found is used."""
    fd = open_lock(root)
    wait_for_lock(call, fd, fcntl.LOCK_SH)
    return fd


@contextmanager
def removal(root):
    """Yields whether something may be removed now: not while anyone keeps what is here. What
    happens inside is short, as those who begin wait for it."""
    fd = open_lock(root)
    try:
        yield try_lock(fd)
    finally:
        os.close(fd)


def remove_blobs(root, shas):
    """Their content has its place now. What is kept meanwhile stays for a prune."""
    with removal(root) as free:
        for sha in shas if free else ():
            unlink(path_of(root, sha))


def remove_dead_parts(parts):
    """What a killed writer left. The minute's age covers the moment between open and lock."""
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
                unlink(path)
        finally:
            os.close(fd)


def unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def open_stored(path):
    try:
        return open(path, "rb")
    except FileNotFoundError:  # by hand, or on a filesystem without locks
        raise Failure(
            "a file that was to be copied has disappeared: %s" % path,
            "",
            "run the same command again: the file is sent again",
            slug="damaged",
        ) from None


def damage_failure(paths):
    return Failure(
        "corrupt on this host's disk, and removed: %s" % paths,
        "the content does not have the recorded sha256",
        "run the same command again: the file is sent again",
        slug="damaged",
    )
