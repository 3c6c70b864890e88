"""Decide when a checkpoint is complete: in the hub, from what the hosts say, without any I/O.

One checkpoint is copied at a time, the newest that is finished on all hosts. Its parts are kept on
the hosts that wrote them, then on their partners, and then the manifest is published on all of
these. Whatever fails before leaves what was complete before.

The caller takes `orders` for hosts and `facts` for all journals, and empties both.
"""

from ipexctl.common import hub_orders, run_events
from ipexctl.common.checkpoint_names import PLAIN, checkpoint_label, checkpoint_series, step_of
from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.common.copy_messages import (
    CopierEnded,
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
from ipexctl.common.message import HUGE
from ipexctl.remote.checkpoints.checkpoint_rules import choose_copy_host, list_missing_files

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable

    Answers = dict[str, PartFound | None]  # host -> its part as it was found; None: it has none

AGAIN = 15.0  # seconds after which what failed is tried again
LOCKSTEP = 2  # times that one host writes plain names, until others are not waited for any more
ENDED = "the process that copies them has ended: in this attempt no further one is copied"
LEFT = "the process that copies them has ended: the other hosts keep the copies now"
OVERWRITTEN = (
    "%s was written again, by several hosts: which parts belong together is not known, so the new "
    "ones are not copied; write each checkpoint under a name of its own"
)


class Publication:
    def __init__(self, hosts: "list[str]", groups: "dict[str, list[str]] | None" = None) -> None:
        """Take the hosts of the run. `groups`: the groups of each host in the hostfile."""
        self.hosts, self.groups = hosts, groups
        self.orders: "list[tuple[str, hub_orders.HostOrder]]" = []
        self.facts: "list[run_events.Fact]" = []
        # host -> (address, port) where it gives its parts
        self.places = {}  # type: dict[str, tuple[str, int]]
        self.answers = {}  # type: dict[str, Answers]  # by name
        # (host, name) -> its stamp when it was found last
        self.seen = {}  # type: dict[tuple[str, str], str]
        self.since = {}  # type: dict[str, float]  # name -> when its last part was written
        self.order = {}  # type: dict[str, None]  # those names, the one found last at the end
        # name -> hosts with a part of it, for each time that it was published
        self.writers = {}  # type: dict[str, list[set[str]]]
        self.published = {}  # type: dict[str, Manifest]  # name -> its last one
        # of plain names: host -> stamp of its part when they were published last
        self.stamps = {}  # type: dict[str, str]
        self.again = 0  # times that a host has written plain names while others were waited for
        self.loose = set()  # type: set[str]  # hosts that write them less often
        self.series = {}  # type: dict[str, set[str]]  # family of names -> hosts that wrote parts
        self.current = None  # type: CopyInProgress | None
        self.number = 0
        self.tried = -AGAIN  # when the last copy failed
        # hosts that failed to keep a copy of another one's part
        self.unfit = set()  # type: set[str]
        self.ended = False  # on some host nothing is copied any more
        self.are_ranks_over = False
        self.looked = set()  # type: set[str]  # hosts that have taken their last looks since
        # name -> why it is not copied yet, as its hosts were told
        self.waits = {}  # type: dict[str, str]
        self.said = set()  # type: set[str]

    def take(self, host: str, message: CopierEvent, now: float) -> None:
        """Handle a message of a host. `begin` is called once after messages that came together."""
        self.HANDLERS[type(message)](self, host, message, now)

    # -- what hosts say --

    def on_serves(self, host: str, message: CopierServes, now: float) -> None:
        """Note where a host serves its parts; a host that started again needs its orders again."""
        if host in self.places and self.current:
            if self.current.manifest:
                self.tell_publish(host, self.current, now)
            else:
                self.try_again(self.current, now)
        self.places[host] = message.address, message.port
        for name in self.order:
            if host not in self.answers[name]:
                self.tell(host, SeekPart(name))
        if self.are_ranks_over:
            self.tell(host, TakeLastLooks())

    def on_note(self, host: str, message: CopierNote, now: float) -> None:
        self.note("checkpoints on %s: %s" % (host, message.text[:300]))

    def on_ended(self, host: str, message: CopierEnded, now: float) -> None:
        """Go on with the other hosts if this one has never written a part, else copy no more."""
        if host not in self.hosts:
            return
        may_write = not self.series or any(host in writers for writers in self.series.values())
        answered = any(answers.pop(host, None) for answers in self.answers.values())
        if may_write or answered or len(self.hosts) < 3:
            self.ended = True
            self.note("checkpoints on %s: %s" % (host, ENDED))
            return
        self.hosts = [other for other in self.hosts if other != host]
        self.note("checkpoints on %s: %s" % (host, LEFT))
        if self.current:
            self.try_again(self.current, now)

    def on_ready(self, host: str, message: PartFound, now: float) -> None:
        """Note a host's part of a checkpoint, and ask the other hosts for theirs."""
        name, stamp = message.name, message.stamp
        is_repeated = self.seen.get((host, name)) == stamp and name not in self.answers
        if is_repeated and not (self.current and self.current.name == name):
            return
        self.seen[host, name] = stamp
        earlier = self.writers.get(name, [])  # of each time that it was published
        writers = set().union({host}, *earlier)
        if name == PLAIN:
            if self.is_overwritten(host, message):
                self.forget(name)
                self.note(OVERWRITTEN % checkpoint_label(message.members or message.names))
                return
            self.note_lone_writer(host, message)
        elif len(writers) > 1:
            if len(earlier) > 1 or host in earlier[-1]:
                self.writers[name] = [writers]
                self.note(OVERWRITTEN % name)
                return
            self.withdraw(name, self.writers.pop(name)[-1])  # this part of it came late
        if self.current and self.current.name == name and self.current.list_writers() != {host}:
            if self.current.manifest and name != PLAIN:
                self.withdraw(name, self.current.list_writers())
            if name != PLAIN or not self.current.manifest:
                self.current = None
        self.answers.setdefault(name, {})[host] = message
        self.order.pop(name, None)
        self.order[name] = None
        written = now - message.age
        self.since[name] = max(self.since.get(name, written), written)
        for peer in self.hosts:
            if peer in self.answers[name]:
                continue
            if name == PLAIN and self.stamps and peer not in self.stamps:
                self.answers[name][peer] = None  # as before: it would say so if it wrote one
            else:
                self.tell(peer, SeekPart(name))

    def on_none(self, host: str, message: PartAbsent, now: float) -> None:
        name = message.name
        # a host that wrote parts of this series will write one of this checkpoint, too
        is_late = host in self.series.get(checkpoint_series(name), ())
        if name in self.answers and is_late:
            self.wait(name, "the part of %s is missing" % host)
        elif name in self.answers:
            self.answers[name].setdefault(host, None)

    def on_looked(self, host: str, message: LastLooksDone, now: float) -> None:
        self.looked.add(host)

    def on_kept(self, host: str, message: PartKept, now: float) -> None:
        if self.current and message.number == self.current.number:
            part = CopiedPart(message.sha, message.list, message.bytes)
            self.current.parts[host] = part
            self.copy(self.current, host)
            self.publish(self.current, now)

    def on_copied(self, host: str, message: PartCopied, now: float) -> None:
        if self.current and message.number == self.current.number:
            self.current.copied.add(message.of)
            self.publish(self.current, now)

    def on_published(self, host: str, message: ManifestWritten, now: float) -> None:
        """Record the checkpoint as complete once every holder has written its manifest."""
        current = self.current
        if not current or message.number != current.number:
            return
        current.published.add(host)
        if current.published < current.list_holders():
            return
        self.current = None
        self.writers.setdefault(current.name, []).append(set(current.parts))
        assert current.manifest is not None  # its holders were ordered to write it
        self.published[current.name] = current.manifest
        if current.name == PLAIN:
            self.again = 0
            self.stamps = {host: part.stamp for host, part in current.found.items() if part}
        self.series.setdefault(checkpoint_series(current.name), set()).update(current.parts)
        size = min(HUGE, sum(part.bytes for part in current.parts.values()))
        seconds = round(now - current.written, 1)
        name, hosts = current.manifest.name, tuple(sorted(current.published))
        event = run_events.Checkpoint(
            name, current.manifest.step, hosts, size, seconds, number=current.number
        )
        self.facts.append(run_events.Fact(event))

    def on_failed(self, host: str, message: CopyFailed, now: float) -> None:
        """Choose another partner for the part, or try the checkpoint again later."""
        if self.current and message.number == self.current.number:
            why, writer = message.why[:300], message.of
            if why and writer in self.current.parts and not self.current.manifest:
                self.unfit.add(host)
                partner = choose_copy_host(self.hosts, writer, self.unfit, self.groups)
                if partner not in self.unfit:
                    self.note("%s keeps no copies now (%s): %s does" % (host, why, partner))
                    self.copy(self.current, writer)
                    return
                self.unfit.clear()  # all have failed: begin with the next one again
            if why:
                self.note("%s is not copied: %s: %s" % (self.current.label(), host, why))
            if why and not self.current.manifest:
                self.try_again(self.current, now)
            self.current = None

    HANDLERS: "dict[type[CopierEvent], Callable[..., None]]" = {
        CopierServes: on_serves,
        CopierNote: on_note,
        CopierEnded: on_ended,
        PartFound: on_ready,
        PartAbsent: on_none,
        LastLooksDone: on_looked,
        PartKept: on_kept,
        PartCopied: on_copied,
        ManifestWritten: on_published,
        CopyFailed: on_failed,
    }

    def begin_end(self) -> None:
        """Ask the hosts for what the ranks wrote last: they have ended."""
        if not self.are_ranks_over:
            self.are_ranks_over = True
            for host in self.hosts:
                self.tell(host, TakeLastLooks())

    def is_done(self) -> bool:
        """Return whether all that the ranks had written when they ended was handled."""
        return self.ended or (self.is_idle() and self.looked >= set(self.hosts))

    def is_idle(self) -> bool:
        """Return whether nothing is copied and no answer is missing."""
        is_waiting = any(len(self.answers[name]) < len(self.hosts) for name in self.order)
        return self.ended or not (self.current or is_waiting)

    def end(self, patterns: "list[str]") -> None:
        """Note what is not complete."""
        if not self.is_done():
            self.note("the last checkpoint has no second copy: a host that keeps it was too slow")
        elif not self.seen:
            self.note("no checkpoint: no file of the ranks matches %s" % " ".join(patterns))

    # -- what follows --

    def begin(self, now: float) -> None:
        """Copy the newest checkpoint that all hosts finished; older ones are skipped."""
        if self.current or self.ended or now < self.tried + AGAIN:
            return
        names = list(self.order)
        for name in reversed(names):
            answers = self.answers[name]
            parts = {host: part for host, part in answers.items() if part}
            missing = list_missing_files(list(parts.values()))
            if missing:
                self.wait(name, "%s is missing" % missing[0])
            unwritten = self.list_unwritten(parts) if name == PLAIN else []
            if unwritten:
                self.wait(name, "the ranks of %s have not written theirs again" % unwritten[0])
            if missing or unwritten or len(answers) < len(self.hosts):
                continue
            skipped = names[: names.index(name) + 1]
            written = [self.since.pop(old_name) for old_name in skipped]
            for old_name in skipped:
                self.forget(old_name)
            self.number += 1
            self.current = CopyInProgress(self.number, name, answers, written[-1])
            for host, part in sorted(parts.items()):
                self.tell(
                    host, KeepPart(self.number, name, part.stamp, without_others(host, parts))
                )
            return

    def is_overwritten(self, host: str, message: PartFound) -> bool:
        """Return whether several hosts write the same plain names again."""
        if not self.stamps:
            return False
        written = set(message.names) - set(message.inherited)
        for other, part in self.answers.get(message.name, {}).items():
            if other != host and part and written & (set(part.names) - set(part.inherited)):
                return True
        return False

    def note_lone_writer(self, host: str, message: PartFound) -> None:
        """Note which hosts write plain names less often than this one: they are not waited for."""
        waited = self.answers.get(message.name, {}).get(host)
        if waited and waited.stamp != message.stamp:
            self.again += 1
            if self.again >= LOCKSTEP:
                self.loose |= set(self.stamps) - {host}
                self.again = 0

    def forget(self, name: str) -> None:
        for known in (self.answers, self.order):
            known.pop(name, None)

    def list_unwritten(self, parts: "dict[str, PartFound]") -> "list[str]":
        """Return the hosts whose plain names are older than those of other hosts: what belongs
        together is there when their ranks have written theirs, too."""
        old = {host for host in parts if self.stamps.get(host) == parts[host].stamp}
        return sorted(old - self.loose) if len(old) < len(parts) else []

    def copy(self, current: "CopyInProgress", host: str) -> None:
        """Let a partner host keep a second copy of this host's part."""
        partner = choose_copy_host(self.hosts, host, self.unfit, self.groups)
        current.partners[host] = [partner] if partner else []
        if partner:
            part, address = current.parts[host], self.places[host]
            self.tell(partner, CopyPart(current.number, host, part, address))

    def publish(self, current: "CopyInProgress", now: float) -> None:
        """Publish the checkpoint once every part is on two hosts."""
        all_copied = len(self.hosts) == 1 or current.copied == current.list_writers()
        if current.list_writers() != set(current.parts) or not all_copied:
            return
        current.manifest = Manifest(
            name=current.label(),
            number=current.number,
            age=0.0,
            parts=current.parts,
            step=step_of(current.name),
            key=current.name,
            members=current.list_members(),
            gap=max(part.gap for part in current.found.values() if part),
            holders={host: [host] + current.partners[host] for host in current.parts},
        )
        for host in sorted(current.list_holders()):
            self.tell_publish(host, current, now)

    def tell_publish(self, host: str, current: "CopyInProgress", now: float) -> None:
        assert current.manifest is not None
        age = max(0.0, now - current.written)
        self.tell(host, WriteManifest(current.manifest.replace(age=age)))

    def try_again(self, failed: "CopyInProgress", now: float) -> None:
        """Copy this checkpoint later, unless a newer one is finished by then."""
        self.current, self.tried = None, now
        if failed.name not in self.order:
            self.answers[failed.name] = failed.found
            self.order = dict.fromkeys([failed.name] + list(self.order))
            self.since[failed.name] = failed.written

    def wait(self, name: str, why: str) -> None:
        if self.waits.get(name) != why:
            self.waits[name] = why
            for host, part in self.answers[name].items():
                if part:
                    self.tell(host, NoteWait(name, why))

    def withdraw(self, name: str, writers: "set[str]") -> None:
        """Withdraw a checkpoint that was published without a part that was found later."""
        current, manifest = self.current, self.published.get(name)
        if current is not None and current.name == name:
            manifest = current.manifest
        assert manifest is not None
        for host in self.hosts if writers else ():
            self.tell(host, WithdrawManifest(manifest.number))
        event = run_events.Checkpoint(manifest.name, withdrawn=True, number=manifest.number)
        self.facts.append(run_events.Fact(event))

    def tell(self, host: str, order: CopyOrder) -> None:
        self.orders.append((host, hub_orders.TellCopier(order)))

    def note(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            self.facts.append(run_events.Fact(run_events.Noted(text)))


def without_others(host: str, parts: "dict[str, PartFound]") -> "list[str]":
    """Return the files that this host has from before, and that another host's ranks wrote."""
    written = [
        set(part.names) - set(part.inherited) for other, part in parts.items() if other != host
    ]
    return sorted(set(parts[host].inherited) & set().union(*written))


class CopyInProgress:
    """A checkpoint that is being copied. `found`: as its hosts have found it."""

    def __init__(self, number: int, name: str, answers: "Answers", written: float) -> None:
        self.number, self.name, self.found, self.written = number, name, answers, written
        self.parts = {}  # type: dict[str, CopiedPart]  # host -> its part, on its disk
        self.partners = {}  # type: dict[str, list[str]]  # host -> where its part is copied to
        self.copied = set()  # type: set[str]  # hosts whose part is on the disk of their partner
        self.published = set()  # type: set[str]
        self.manifest = None  # type: Manifest | None  # once all parts are on two disks: from then on it is complete

    def list_members(self) -> "list[str]":
        """Return the names that belong to it."""
        found = [part.members or [self.name] for part in self.found.values() if part]
        return sorted(set().union(*found))

    def label(self) -> str:
        return checkpoint_label(self.list_members())

    def list_writers(self) -> "set[str]":
        return {host for host, part in self.found.items() if part}

    def list_holders(self) -> "set[str]":
        return {holder for host in self.list_writers() for holder in [host] + self.partners[host]}
