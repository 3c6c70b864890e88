"""The journal of a run on a host, RUN/journals/HOST: its events, written as they happen.

A record is two big-endian u32 (length and CRC-32 of a JSON text), then the text. The file has its
room from the start, so that a full disk does not stop it; zeros follow the last record. What the
power cut in the middle of a record leaves is not read.
"""

import json
import os
import struct
import time
import zlib

from ipexctl.common.files import open_regular
from ipexctl.common.journal_records import JournalRecord, WrittenRecord
from ipexctl.common.strict_json import read_strict_json
from ipexctl.common.tolerant_reads import names_in, size_of
from ipexctl.remote import root_folder

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Iterator
    from typing import Any

    Record = dict[str, Any]

DEPTH = 48  # of a record: an answer has it inside of documents of its own
HEAD = struct.Struct(">II")
ROOM = 256 * 1024
MOST_BYTES = 16 << 20  # bytes; later records are lost
LONGEST = 1 << 20  # bytes of one record
USUAL = 1 << 14  # bytes read at a time
ATTEMPTS = "attempts."  # before a host's name: a file of lines (restart/keeper.py)
SIZES_OFTEN, SIZES_EVERY = 0.1, 2.5  # seconds between looks at first, and in a long run
SIZES_SHARE = 0.005  # of the run's time so far: how exactly the times of lines are known
SIZES, SAMPLES = ".sizes", ".samples"  # at the end of the names of histories
MOST_ROWS = 2000  # of a history; then every second one of the older half goes
FIRST = 20  # records of a journal to read; its beginning describes the run


class Journal:
    def __init__(self, path: str, flags: int = 0, at: int = 0) -> None:
        """Open a journal; raises OSError. `at`: where its records end."""
        self.fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | flags, 0o600)
        self.at = at
        self.room = 0
        self.make_room(at + ROOM)

    def make_room(self, size: int) -> None:
        try:
            os.posix_fallocate(self.fd, 0, size)
            self.room = size
        except OSError:
            pass  # the file system cannot reserve room: records are written while there is some

    def add(self, record: JournalRecord, at: float = 0.0, sync: bool = False) -> bool:
        """Append a record. Return whether it was written: if not, it is lost, the run continues.
        `at`: seconds since the run began."""
        text = json.dumps(WrittenRecord(record, round(at, 3)).document()).encode("ascii")
        data = HEAD.pack(len(text), zlib.crc32(text)) + text
        if len(text) > LONGEST or self.at + len(data) > MOST_BYTES:
            return False
        if self.at + len(data) + HEAD.size > self.room:
            self.make_room(self.at + len(data) + ROOM)
        written = False
        try:
            written = os.pwrite(self.fd, data, self.at) == len(data)
            if written:
                self.at += len(data)
            if sync:
                os.fsync(self.fd)
        except OSError:
            pass
        return written

    def trim(self) -> None:
        """Give back the room that was reserved and not used."""
        try:
            os.ftruncate(self.fd, self.at)
            self.room = self.at
        except OSError:
            pass


class JournalReader:
    """Read the records that are added to a journal, from an offset on."""

    def __init__(self, path: str, at: int = 0) -> None:
        self.path = path
        self.at = at
        self.fd = -1

    def new(self) -> "Iterator[tuple[WrittenRecord, int]]":
        """Yield (record, offset of its end) of each record added since the last call."""
        try:
            if self.fd < 0:
                self.fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            size = USUAL
            while True:
                data = os.pread(self.fd, size, self.at)
                documents = list(iter_documents(data))
                for document, end in documents:
                    record = read_document(document)
                    if record is not None:
                        yield record, self.at + end
                if documents:
                    self.at += documents[-1][1]
                elif size == USUAL and any(data[: HEAD.size]):
                    size = HEAD.size + LONGEST  # a longer record
                else:
                    return
        except OSError:
            return  # it is not there yet


class History:
    """A file of JSON rows beside the journal. Older rows are thinned, so that it stays small."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows = []  # type: list[Record]

    def add(self, row: "Record") -> None:
        """Append a row; raises OSError."""
        self.rows.append(row)
        if len(self.rows) > MOST_ROWS:
            half = MOST_ROWS // 2
            self.rows = self.rows[:half:2] + self.rows[half:]
            write_lines(self.path + ".new", os.O_TRUNC, self.rows)
            os.rename(self.path + ".new", self.path)
        else:
            write_lines(self.path, os.O_APPEND, self.rows[-1:])


def keep_sizes(path: str, logs: "dict[int, str]", is_over: "Callable[[], object]") -> None:
    """Record the size of each rank's log over time, which dates its lines. Most runs are short:
    looks are frequent at first."""
    history, began = History(path), time.monotonic()
    last_sizes, looked, written = None, 0.0, 0.0  # type: dict[int, int] | None, float, float
    while not is_over():
        sizes, now = {rank: size_of(log) for rank, log in logs.items()}, round(time.time(), 2)
        try:
            if sizes != last_sizes:
                if looked > written:  # no log has grown until then
                    history.add({"at": looked, "sizes": last_sizes})
                history.add({"at": now, "sizes": sizes})
                written = now
        except OSError:
            return  # a full disk, say
        last_sizes, looked = sizes, now
        share = SIZES_SHARE * (time.monotonic() - began)
        time.sleep(min(SIZES_EVERY, max(SIZES_OFTEN, share)))


def read_lines(path: str) -> "list[Record]":
    """Return the JSON objects in the lines of a file, [] if it cannot be read."""
    try:
        with open_regular(path) as lines:
            documents = [read_strict_json(line) for line in lines if line.endswith(b"\n")]
    except (OSError, ValueError):
        return []
    return [line for line in documents if isinstance(line, dict)]


def write_lines(path: str, flags: int, rows: "list[Record]") -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | flags, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


def create_journal(folder: str, host: str) -> "Journal":
    root_folder.make_subfolder(folder, "journals")
    return Journal(path_of(folder, host), os.O_CREAT | os.O_EXCL)


def append_record(path: str, record: JournalRecord, at: float = 0.0) -> None:
    """Append to the journal of a run that has ended."""
    journal = Journal(path, at=end_of(read_journal_bytes(path)))
    try:
        journal.add(record, at, sync=True)
        journal.trim()
    finally:
        os.close(journal.fd)


def path_of(folder: str, host: str) -> str:
    return os.path.join(folder, "journals", os.path.basename(host) or "-")


def attempts_path(folder: str, host: str) -> str:
    return os.path.join(folder, ATTEMPTS + os.path.basename(host))


def list_kept_hosts(folder: str) -> "list[str]":
    """Return the hosts whose keepers have a record here, even if the run is still queued."""
    return [name[len(ATTEMPTS) :] for name in names_in(folder) if name.startswith(ATTEMPTS)]


def list_journal_hosts(folder: str) -> "list[str]":
    """List the hosts that keep their journal of the run here: several, if they share a home."""
    suffixes = (SIZES, SAMPLES, SIZES + ".new", SAMPLES + ".new")
    names = names_in(os.path.join(folder, "journals"))
    return sorted(name for name in names if not name.endswith(suffixes))


def sizes_path(folder: str, host: str) -> str:
    return path_of(folder, host) + SIZES


def samples_path(folder: str, host: str) -> str:
    return path_of(folder, host) + SAMPLES


def read_journal(folder: str, host: str) -> "list[WrittenRecord]":
    """Return the records of a host, up to the first that is not intact."""
    return parse_records(read_journal_bytes(path_of(folder, host)))


def read_journal_bytes(path: str) -> bytes:
    """Return the bytes of a journal, empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        try:
            return file.read(MOST_BYTES)
        except OSError:
            return b""


def iter_documents(data: bytes) -> "Iterator[tuple[Record, int]]":
    """Yield (document, offset of its end), up to the first that is not intact. One that is no
    document of ours is passed over."""
    position = 0
    while position + HEAD.size <= len(data):
        size, crc = HEAD.unpack_from(data, position)
        text = data[position + HEAD.size : position + HEAD.size + size]
        if not size or len(text) < size or zlib.crc32(text) != crc:
            return
        position += HEAD.size + size
        try:
            document = read_strict_json(text, DEPTH)
        except ValueError:
            continue
        if isinstance(document, dict):
            yield document, position


def read_document(document: "Record") -> "WrittenRecord | None":
    """Return the record in a document; None if another version wrote it."""
    try:
        return WrittenRecord.read(document)
    except (TypeError, AttributeError):
        return None


def parse_records(data: bytes) -> "list[WrittenRecord]":
    records = [read_document(document) for document, _ in iter_documents(data)]
    return [record for record in records if record is not None]


def end_of(data: bytes) -> int:
    return max([0] + [end for _, end in iter_documents(data)])
