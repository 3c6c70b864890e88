"""The process that copies checkpoints on one host of a run: it looks for them, keeps and fetches
what the hub orders (publication.py), and serves what its partner lacks.

It may be killed at any time: what is on the disk is complete as soon as its name is.
"""

import json
import marshal
import os
import select
import socket
import struct
import time

from ipexctl.common import checkpoint_names
from ipexctl.common.addresses import peer_url
from ipexctl.common.copy_messages import (
    CopierEvent,
    CopierNote,
    CopierServes,
    CopyFailed,
    CopyOrder,
    CopyPart,
    KeepPart,
    LastLooksDone,
    ManifestWritten,
    NoteWait,
    PartAbsent,
    PartCopied,
    PartFound,
    PartKept,
    SeekPart,
    TakeLastLooks,
    WithdrawManifest,
    WriteManifest,
)
from ipexctl.common.files import write_atomic
from ipexctl.remote.blobs import blob_server, blobs
from ipexctl.remote.checkpoints import (
    checkpoint_files,
    copy_link,
    done_lines,
    writing_habits,
)
from ipexctl.remote.checkpoints.copy_folder import Changed, CopyFolder, FilesBySha, aside_folder
from ipexctl.remote.failure import Failure, bug_document

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import mmap
    from collections.abc import Callable, Iterable
    from typing import Any

    from ipexctl.common.run_orders import StartOrder
    from ipexctl.remote.checkpoints.checkpoint_files import Files, Members

    WaitingRow = list[Any]  # name, step, bytes, when written, why it is not copied

EVERY = 2.0  # seconds between two looks
LAST_LOOKS = 4  # after the ranks have ended: what is equal in two of them is finished
PACE = 32 << 20  # bytes per second to the partner: a quarter of 1 Gbit/s
SO_MAX_PACING_RATE = 47
LONGEST_LIST = 1 << 17  # bytes of the names in one message
TRIES, PAUSE = 3, 1.0  # of a fetch
UNFINISHED = 60.0  # seconds without a complete checkpoint, until a note says so
TOGETHER = "%s are taken together as one checkpoint"
PUT_ASIDE = "what was newer than the checkpoint, or no part of it, was moved to %s"
WRITTEN = "it is being written"
NOT_COPIED = "it is not copied yet"
INCOMPLETE = "%s: no checkpoint was complete in the last minute: %s"
REWRITTEN = (
    "%s is not copied: in the last minute no version of it stayed unchanged for 10 s; write it "
    "less often, or give each one a name of its own, with its step"
)


LENGTH = struct.Struct("=Q")  # of what a worker has noted for the next one


def work(order: "StartOrder", folder: str, link: "socket.socket", memory: "mmap.mmap") -> None:
    """Run as the worker. `memory` has what the first worker of the run found, if this one replaces
    it: by now, the ranks may have written files."""
    existing = read_memory(memory)
    if existing is None:
        existing = checkpoint_files.found_in(order.cwd, order.checkpoints)
        write_memory(memory, existing)
    Worker(order, folder, link, existing).work()


def read_memory(memory: "mmap.mmap") -> "Members | None":
    size = LENGTH.unpack_from(memory)[0]  # type: int
    existing = None  # type: Members | None
    if size:
        existing = marshal.loads(memory[LENGTH.size : LENGTH.size + size])
    return existing


def write_memory(memory: "mmap.mmap", existing: "Members") -> None:
    """Note what was there before the ranks; its length last, as this process may be killed."""
    data = marshal.dumps(existing)
    if LENGTH.size + len(data) <= len(memory):
        memory[LENGTH.size : LENGTH.size + len(data)] = data
        LENGTH.pack_into(memory, 0, len(data))


class Worker:
    """Find and copy checkpoints. Files older than the ranks are not checkpoints of this run."""

    def __init__(
        self, order: "StartOrder", folder: str, link: "socket.socket", existing: "Members"
    ) -> None:
        """Take a StartOrder, the folder of copies, the socket to the supervisor, and what matched
        before the ranks began."""
        self.host, self.keys = order.host, order.keys
        self.folder, self.patterns = order.cwd, order.checkpoints
        self.copies = CopyFolder(folder)
        self.link = link
        self.before = {}  # type: dict[str, str]  # key -> its stamp at the last look
        self.told = {}  # type: dict[str, str]  # key -> the stamp that the hub knows
        # key -> looks until the hub is told that it is not here
        self.sought = {}  # type: dict[str, int]
        self.looks_left = 0  # until the hub is told that these were the last ones
        self.waiting = {}  # type: dict[str, WaitingRow]  # by key
        # keys that were reported as finished, in that order
        self.ready = []  # type: list[str]
        self.written = b""  # the text of the file
        self.pending = []  # type: list[str]  # parts of the checkpoint that is being copied
        self.number = 0  # of that
        self.noted = set()  # type: set[str]  # texts that the hub was told, or what they are about
        self.rewritten = set()  # type: set[str]  # keys of those that changed while they were copied
        with_files: "Members" = {name: files for name, files in existing.items() if files}
        self.old = checkpoint_files.files_of_checkpoint(with_files) or {}
        self.habits = writing_habits.WritingHabits(order.checkpoint_gap)
        units = checkpoint_files.group_by_checkpoint(existing)
        found = {key: checkpoint_files.files_of_checkpoint(units[key]) for key in units}
        for key in sorted(units, key=lambda key: checkpoint_files.last_change(found[key])):
            self.habits.expect(key, found[key] or ())
        self.progress = time.monotonic()  # when there was nothing to copy, or a copy was complete
        self.done_lines = done_lines.DoneLines(os.path.dirname(os.path.dirname(folder)))
        self.aside = aside_folder(order)

    def work(self) -> None:
        try:
            self.serve()
        except Exception:
            self.say(CopierNote(bug_document()["what"]))

    def serve(self) -> None:
        """Look for checkpoints every EVERY seconds and follow orders until the supervisor ends."""
        try:
            self.copies.make()
            self.say(CopierServes(self.listen() if self.keys else 0))
            os.nice(19)  # not before: the ranks wait for that message
            if os.path.isdir(self.aside):
                self.note(PUT_ASIDE % self.aside)
        except (Failure, OSError) as e:
            self.say(CopierNote("cannot copy them: %s" % in_words(e)))
            return
        due = 0.0
        while True:
            wait = max(0.0, due - time.monotonic())
            if select.select([self.link], [], [], wait)[0]:
                order = copy_link.receive_packet(self.link)
                if order is None:
                    return
                self.obey(CopyOrder.read(order))
            if time.monotonic() >= due:
                try:
                    self.look()
                except (OSError, ValueError):
                    pass  # a file was removed meanwhile
                due = time.monotonic() + EVERY

    def say(self, message: CopierEvent) -> None:
        copy_link.send_packet(self.link, message)

    def listen(self) -> int:
        server = blob_server.Server(self.keys, FilesBySha([self.copies]))
        server.socket.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, PACE)  # for accepted ones
        return server.begin()

    # -- looking --

    def look(self) -> None:
        """Report checkpoints that are new or changed, and requested ones that are absent."""
        now, done_at = time.monotonic(), self.done_lines.read_time()
        written = self.find_written()
        self.habits.forget_all_but(written)
        for key, (members, files) in written.items():
            fresh = self.fresh(files or {})
            self.habits.look(key, fresh, now)
            is_said = checkpoint_files.last_change(fresh) <= done_at
            if is_said or checkpoint_files.is_marked_done(self.folder, members, fresh):
                self.habits.mark_done(key)
        stamps = {key: stamp_of(files) for key, (_, files) in written.items()}
        for key, (members, files) in written.items():
            if self.told.get(key) != stamps[key]:
                self.look_at(key, members, files, stamps[key], now)
        self.before = stamps
        self.waiting = {key: row for key, row in self.waiting.items() if key in written}
        for key in list(self.sought):
            self.sought[key] -= 1
            if key in written:
                del self.sought[key]
            elif self.sought[key] <= 0:
                del self.sought[key]
                self.say(PartAbsent(key))
        self.write_pending()
        self.note_progress(now)
        if self.looks_left:
            self.looks_left -= 1
            if not self.looks_left:
                self.say(LastLooksDone())

    def find_written(self) -> "dict[str, tuple[Members, Files | None]]":
        """Return {key: (members, files)} of checkpoints of which the ranks have written a file,
        the one that was written last at the end."""
        matches = checkpoint_files.found_in(self.folder, self.patterns)
        units = {}
        for key, members in checkpoint_files.group_by_checkpoint(matches).items():
            files = checkpoint_files.files_of_checkpoint(members)
            if files is None or self.fresh(files):
                units[key] = members, files
        return dict(sorted(units.items(), key=lambda row: checkpoint_files.last_change(row[1][1])))

    def fresh(self, files: "Files") -> "Files":
        """Return those that were not there before the ranks, or have changed since."""
        return {path: info for path, info in files.items() if self.old.get(path) != info}

    def look_at(
        self, key: str, members: "Members", files: "Files | None", stamp: str, now: float
    ) -> None:
        """Report a checkpoint if it is finished; otherwise note why it is not copied yet."""
        why, needs, found = WRITTEN, [], files or {}  # type: str, list[str], Files
        if self.before.get(key) == stamp:
            why = checkpoint_files.why_checkpoint_unfinished(self.folder, files)
            why = why or self.habits.why_incomplete(key, now)
        if not why:
            needs = checkpoint_files.list_indexed_files(self.folder, found)
            if sum(map(len, [*found, *needs])) > LONGEST_LIST:
                why = "it has too many files"
        size = sum(size for size, _, _ in found.values())
        written, label = (
            checkpoint_files.last_change(found) / 1e9,
            checkpoint_names.checkpoint_label(members),
        )
        row = [label, checkpoint_names.step_of(key), size, written, why]
        self.waiting[key] = row
        if not why:
            self.told[key] = stamp
            row[-1] = NOT_COPIED
            self.ready.append(key)
            self.habits.expect(key, self.habits.rounds[key].written)
            self.note_members(key, members)
            age = max(0.0, time.time() - written)
            inherited = sorted(set(found) - set(self.fresh(found)))
            self.say(
                PartFound(
                    key,
                    stamp,
                    sorted(found),
                    needs,
                    age,
                    sorted(members),
                    inherited,
                    self.habits.gap,
                )
            )

    def note_members(self, key: str, members: "Members") -> None:
        """Note once which plain names are one checkpoint."""
        if key == checkpoint_names.PLAIN and len(members) > 1:
            self.note(TOGETHER % list_names(members))

    def note(self, text: str, about: str = "") -> None:
        """Tell the hub, once for each text, or for what it is about."""
        if (about or text) not in self.noted:
            self.noted.add(about or text)
            self.say(CopierNote(text))

    def note_progress(self, now: float) -> None:
        """Note, once for all names that differ by their step, that what is written has not become
        complete for a minute, and what helps."""
        if not self.waiting or self.pending:
            self.progress = now
            return
        changing, unfinished = {}, {}
        for key, row in self.waiting.items():
            if row[-1] == WRITTEN or key in self.rewritten:
                changing[key] = row
            elif row[-1] != NOT_COPIED:
                unfinished[key] = row
            else:
                return  # the hub says why a complete one is not copied
        if now - self.progress > UNFINISHED:
            rows = unfinished or changing  # of those, a new one may just be written
            key, row = max(rows.items(), key=lambda item: item[1][3])
            label, _, _, written, why = row
            if time.time() - written < UNFINISHED:
                text = INCOMPLETE % (label, why) if unfinished else REWRITTEN % label
                self.note(text, about=checkpoint_names.checkpoint_series(key))

    def write_pending(self) -> None:
        """Write the list of checkpoints that are not copied yet, if it has changed."""
        rows = sorted(self.waiting.values(), key=lambda row: row[0])
        text = json.dumps(rows).encode("ascii")
        if text != self.written:
            self.written = text
            try:
                path = os.path.join(self.copies.folder, "pending.json")
                write_atomic(path, text, mode=None)
            except OSError:
                pass  # a full disk

    # -- orders of the hub --

    def obey(self, order: CopyOrder) -> None:
        """Execute an order; report a failure to the hub."""
        try:
            self.HANDLERS[type(order)](self, order)
        except (Changed, FileNotFoundError):  # the script has removed it
            self.say(CopyFailed(self.number, ""))
        except (Failure, OSError) as e:
            writer = order.of if isinstance(order, CopyPart) else None
            self.say(CopyFailed(self.number, in_words(e), writer))

    def seek(self, order: SeekPart) -> None:
        """Report this checkpoint again at a later look, or that it is absent."""
        self.told.pop(order.name, None)
        self.sought[order.name] = 3

    def look_last(self, order: TakeLastLooks) -> None:
        self.looks_left = LAST_LOOKS

    def waits(self, order: NoteWait) -> None:
        if order.name in self.waiting:
            self.waiting[order.name][-1] = order.why

    def begin(self, number: int) -> None:
        if number != self.number:
            self.number, self.pending = number, []
            self.copies.remove_unneeded([])

    def keep(self, order: KeepPart) -> None:
        """Copy this host's part of a checkpoint on its own disk."""
        self.begin(order.number)
        members, found = self.find_written().get(order.name, ({}, {}))
        if not found or stamp_of(found) != order.stamp:
            self.rewritten.add(order.name)
            raise Changed
        files = {path: info for path, info in found.items() if path not in order.without}
        size = sum(size for size, _, _ in files.values())
        sha = self.copies.keep(self.folder, files)
        if self.find_written().get(order.name) != (members, found):
            self.rewritten.add(order.name)
            raise Changed
        self.pending.append(sha)
        length = os.path.getsize(self.copies.path(sha))
        self.say(PartKept(self.number, sha, length, size))

    def copy(self, order: CopyPart) -> None:
        """Fetch a part from the host whose partner this host is."""
        self.begin(order.number)
        part, url = order.part, peer_url(*order.at)
        self.pending.append(part.sha)
        for tries_left in reversed(range(TRIES)):
            try:
                self.copies.fetch(part.sha, part.list, self.keys, url)
                break
            except Failure as e:
                if not tries_left or e.slug == "no-space":
                    raise
                time.sleep(PAUSE)
        self.say(PartCopied(self.number, order.of))

    def publish(self, order: WriteManifest) -> None:
        """Write the manifest of a complete checkpoint and remove older copies."""
        manifest = order.manifest
        for host, part in manifest.parts.items():
            if self.host in manifest.holders[host] and not self.copies.has_part(part.sha):
                raise Failure("a part of %s is not here" % manifest.name, slug="part-missing")
        self.copies.publish(manifest)
        self.pending = []
        self.copies.remove_unneeded([])
        self.progress = time.monotonic()
        if manifest.key in self.ready:  # those before it are skipped
            end = self.ready.index(manifest.key) + 1
            handled, self.ready = self.ready[:end], self.ready[end:]
            for key in set(handled) - set(self.ready):
                self.waiting.pop(key, None)
            self.write_pending()
        self.say(ManifestWritten(manifest.number))

    def withdraw(self, order: WithdrawManifest) -> None:
        blobs.try_unlink(self.copies.manifest_path(order.number))

    HANDLERS: "dict[type[CopyOrder], Callable[..., None]]" = {
        SeekPart: seek,
        TakeLastLooks: look_last,
        NoteWait: waits,
        KeepPart: keep,
        CopyPart: copy,
        WriteManifest: publish,
        WithdrawManifest: withdraw,
    }


def stamp_of(files: "Files | None") -> str:
    return checkpoint_files.stamp_of_files(files or {})


def list_names(names: "Iterable[str]") -> str:
    """Return the first names of a checkpoint, for a note."""
    shown = sorted(names)
    more = [] if len(shown) <= 4 else ["%d more" % (len(shown) - 3)]
    words = shown[:3] + more if more else shown
    return "%s and %s" % (", ".join(words[:-1]), words[-1])


def in_words(e: Exception) -> str:
    if isinstance(e, Failure):
        return e.what + (" (%s)" % e.why if e.why else "")
    return e.strerror or str(e) if isinstance(e, OSError) else str(e)
