"""The process that copies checkpoints on one host of a run: it looks for them, keeps and fetches
what the hub orders (publication.py), and serves what its partner lacks.

It may be killed at any time: what is on the disk is complete as soon as its name is.
"""

import json
import os
import select
import socket
import time

from ipexctl.common.addresses import peer_url
from ipexctl.common.copy_messages import (
    CopierNote,
    CopierSaid,
    CopierServes,
    CopyFailed,
    CopyOrder,
    CopyPart,
    KeepPart,
    ManifestWritten,
    NoteWait,
    PartAbsent,
    PartCopied,
    PartFound,
    PartKept,
    SeekPart,
    WithdrawManifest,
    WriteManifest,
)
from ipexctl.common.files import write_atomic
from ipexctl.remote.blobs import blob_server, blobs
from ipexctl.remote.checkpoints import checkpoint_files, checkpoint_rules, copy_link
from ipexctl.remote.checkpoints.copy_folder import Changed, CopyFolder, FilesBySha
from ipexctl.remote.failure import Failure, bug_document

EVERY = 2.0  # seconds between two looks
PACE = 32 << 20  # bytes per second to the partner: a quarter of 1 Gbit/s
SO_MAX_PACING_RATE = 47
LONGEST_LIST = 1 << 16  # bytes of the names in one message
TRIES, PAUSE = 3, 1.0  # of a fetch


class Worker:
    """Find and copy checkpoints. Files older than the ranks are not checkpoints of this run."""

    def __init__(self, order, folder, link):
        """Take a StartOrder, the folder of copies, and the socket to the supervisor."""
        self.host, self.keys = order.host, order.keys
        self.folder, self.patterns = order.cwd, order.checkpoints
        self.copies = CopyFolder(folder)
        self.link = link
        self.before = {}  # name -> its stamp at the last look
        self.told = {}  # name -> the stamp that the hub knows
        self.sought = {}  # name -> looks until the hub is told that it is not here
        self.waiting = {}  # name -> [step, bytes, when it was written, why it is not copied]
        self.ready = []  # names that were reported as finished, in that order
        self.written = b""  # the text of the file
        self.pending = []  # parts of the checkpoint that is being copied
        self.number = 0  # of that
        existing = checkpoint_files.found_in(self.folder, self.patterns)
        self.old = {
            name: checkpoint_files.stamp_of_files(files or {}) for name, files in existing.items()
        }

    def work(self):
        try:
            self.serve()
        except Exception:
            self.say(CopierNote(bug_document()["what"]))

    def serve(self):
        """Look for checkpoints every EVERY seconds and follow orders until the supervisor ends."""
        try:
            self.copies.make()
            self.say(CopierServes(self.listen() if self.keys else 0))
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
                self.obey(CopyOrder.any_of(order))
            if time.monotonic() >= due:
                try:
                    self.look()
                except (OSError, ValueError):
                    pass  # a file was removed meanwhile
                due = time.monotonic() + EVERY

    def say(self, message: CopierSaid):
        copy_link.send_packet(self.link, message.document())

    def listen(self):
        server = blob_server.Server(self.keys, FilesBySha([self.copies]))
        server.socket.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, PACE)  # for accepted ones
        return server.begin()

    # -- looking --

    def look(self):
        """Report checkpoints that are new or changed, and requested ones that are absent."""
        matches = checkpoint_files.found_in(self.folder, self.patterns)
        stamps = {
            name: checkpoint_files.stamp_of_files(files or {}) for name, files in matches.items()
        }
        matches = {name: matches[name] for name in matches if self.old.get(name) != stamps[name]}
        for name in sorted(matches, key=lambda path: last_change(matches[path])):
            if self.told.get(name) != stamps[name]:
                self.look_at(name, matches[name] or {}, stamps[name], matches[name] is None)
        self.before = stamps
        self.waiting = {name: row for name, row in self.waiting.items() if name in matches}
        for name in list(self.sought):
            self.sought[name] -= 1
            if name in matches:
                del self.sought[name]
            elif self.sought[name] <= 0:
                del self.sought[name]
                self.say(PartAbsent(name))
        self.write_pending()

    def look_at(self, name, files, stamp, is_invalid):
        """Report a checkpoint if it is finished; otherwise note why it is not copied yet."""
        why = "it is being written"
        top = os.path.join(self.folder, name)
        names, needs = sorted(files), []
        if self.before.get(name) == stamp:
            why = checkpoint_files.why_checkpoint_unfinished(top, None if is_invalid else files)
            if not why:
                needs = checkpoint_files.list_indexed_files(top, files)
                if sum(map(len, names + needs)) > LONGEST_LIST:
                    why = "it has too many files"
        size = sum(size for size, _, _ in files.values())
        written = last_change(files) / 1e9
        row = [checkpoint_rules.step_of(name), size, written, why]
        self.waiting[name] = row
        if not why:
            self.told[name] = stamp
            row[-1] = "it is not copied yet"
            self.ready.append(name)
            age = max(0.0, time.time() - written)
            self.say(PartFound(name, stamp, names, needs, age))

    def write_pending(self):
        """Write the list of checkpoints that are not copied yet, if it has changed."""
        rows = [[name] + row for name, row in sorted(self.waiting.items())]
        text = json.dumps(rows).encode("ascii")
        if text != self.written:
            self.written = text
            try:
                path = os.path.join(self.copies.folder, "pending.json")
                write_atomic(path, text, mode=None)
            except OSError:
                pass  # a full disk

    # -- orders of the hub --

    def obey(self, order: "CopyOrder | None"):
        """Call the method that the order names; report a failure to the hub."""
        try:
            if order is not None:
                getattr(self, order.mark)(order)
        except (Changed, FileNotFoundError):  # the script has removed it
            self.say(CopyFailed(self.number, ""))
        except (Failure, OSError) as e:
            writer = order.of if isinstance(order, CopyPart) else None
            self.say(CopyFailed(self.number, in_words(e), writer))

    def seek(self, order: SeekPart):
        """Report this checkpoint again at a later look, or that it is absent."""
        self.told.pop(order.seek, None)
        self.sought[order.seek] = 3

    def waits(self, order: NoteWait):
        if order.waits in self.waiting:
            self.waiting[order.waits][-1] = order.why

    def begin(self, number):
        if number != self.number:
            self.number, self.pending = number, []
            self.copies.remove_unneeded([])

    def keep(self, order: KeepPart):
        """Copy this host's part of a checkpoint on its own disk."""
        self.begin(order.keep)
        files = checkpoint_files.list_checkpoint_files(os.path.join(self.folder, order.name))
        if not files or checkpoint_files.stamp_of_files(files) != order.stamp:
            raise Changed
        size = sum(size for size, _, _ in files.values())
        sha = self.copies.keep(self.folder, order.name, files)
        self.pending.append(sha)
        length = os.path.getsize(self.copies.path(sha))
        self.say(PartKept(self.number, sha, length, size))

    def copy(self, order: CopyPart):
        """Fetch a part from the host whose partner this host is."""
        self.begin(order.copy)
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

    def publish(self, order: WriteManifest):
        """Write the manifest of a complete checkpoint and remove older copies."""
        manifest = order.publish
        for host, part in manifest.parts.items():
            if self.host in manifest.holders[host] and not self.copies.has_part(part.sha):
                raise Failure("a part of %s is not here" % manifest.name, slug="part-missing")
        self.copies.publish(manifest)
        self.pending = []
        self.copies.remove_unneeded([])
        if manifest.name in self.ready:  # those before it are skipped
            end = self.ready.index(manifest.name) + 1
            handled, self.ready = self.ready[:end], self.ready[end:]
            for name in set(handled) - set(self.ready):
                self.waiting.pop(name, None)
            self.write_pending()
        self.say(ManifestWritten(manifest.number))

    def withdraw(self, order: WithdrawManifest):
        for number, manifest in self.copies.read_manifests().items():
            if manifest.name == order.withdraw:
                blobs.try_unlink(self.copies.manifest_path(number))


def last_change(files):
    return max([mtime for _, mtime, _ in (files or {}).values()] or [0])


def in_words(e):
    if isinstance(e, Failure):
        return e.what + (" (%s)" % e.why if e.why else "")
    return e.strerror or str(e) if isinstance(e, OSError) else str(e)
