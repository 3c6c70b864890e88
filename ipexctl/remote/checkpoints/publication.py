"""Decide when a checkpoint is complete: in the hub, from what the hosts say, without any I/O.

One checkpoint is copied at a time, the newest that is finished on all hosts. Its parts are kept on
the hosts that wrote them, then on their partners, and then the manifest is published on all of
these. Whatever fails before leaves what was complete before.

The caller takes `orders` for hosts and `facts` for all journals, and empties both.
"""

from ipexctl.common import copy_messages, hub_orders, run_events
from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.common.copy_messages import (
    CopyOrder,
    CopyPart,
    KeepPart,
    NoteWait,
    SeekPart,
    WithdrawManifest,
    WriteManifest,
)
from ipexctl.remote.checkpoints.checkpoint_rules import (
    checkpoint_series,
    choose_copy_host,
    list_missing_files,
    step_of,
)

AGAIN = 15.0  # seconds after which what failed is tried again
ENDED = "the process that copies them has ended: in this attempt no further one is copied"
LEFT = "the process that copies them has ended: the other hosts keep the copies now"
OVERWRITTEN = (
    "%s was written again, by several hosts: which parts belong together is not known, so the new "
    "ones are not copied; write each checkpoint under a name of its own"
)


class Publication:
    def __init__(self, hosts, groups=None):
        """`groups`: names of those in the hostfile, for each host."""
        self.hosts, self.groups = hosts, groups
        self.orders = []
        self.facts = []
        self.places = {}  # host -> [address, port] where it gives its parts
        self.answers = {}  # name -> {host: its part as it was found; None: it has none}
        self.seen = {}  # (host, name) -> its stamp when it was found last
        self.since = {}  # name -> when its last part was written
        self.order = {}  # type: dict[str, None]  # those names, the one found last at the end
        self.writers = {}  # name -> hosts with a part of it, for each time that it was published
        self.series = {}  # family of names -> hosts that wrote parts
        self.current = None  # an Attempt
        self.number = 0
        self.tried = -AGAIN  # when the last copy failed
        self.unfit = set()  # hosts that failed to keep a copy of another one's part
        self.ended = False  # on some host nothing is copied any more
        self.waits = {}  # name -> why it is not copied yet, as its hosts were told
        self.said = set()

    def take(self, host, said: copy_messages.CopierSaid, now):
        """What a host says: one of on_... `begin` follows once for all that came together."""
        getattr(self, "on_%s" % said.copier_event)(host, said, now)

    # -- what hosts say --

    def on_serves(self, host, said: copy_messages.CopierServes, now):
        if host in self.places and self.current:
            if self.current.manifest:
                self.tell_publish(host, self.current, now)
            else:
                self.try_again(self.current, now)
        self.places[host] = said.address, said.port
        for name in self.order:
            if host not in self.answers[name]:
                self.tell(host, SeekPart(name))

    def on_note(self, host, said: copy_messages.CopierNote, now):
        self.note("checkpoints on %s: %s" % (host, said.text[:300]))

    def on_ended(self, host, said, now):
        """What is complete stays. The others go on if it has never written a part."""
        if host not in self.hosts:
            return
        writes = not self.series or any(host in writers for writers in self.series.values())
        found = any(answers.pop(host, None) for answers in self.answers.values())
        if writes or found or len(self.hosts) < 3:
            self.ended = True
            self.note("checkpoints on %s: %s" % (host, ENDED))
            return
        self.hosts = [other for other in self.hosts if other != host]
        self.note("checkpoints on %s: %s" % (host, LEFT))
        if self.current:
            self.try_again(self.current, now)

    def on_ready(self, host, said: copy_messages.PartFound, now):
        name, stamp = said.name, said.stamp
        again = self.seen.get((host, name)) == stamp and name not in self.answers
        if again and not (self.current and self.current.name == name):
            return
        self.seen[host, name] = stamp
        before = self.writers.get(name, [])  # of each time that it was published
        writers = set().union({host}, *before)
        if len(writers) > 1:
            if len(before) > 1 or host in before[-1]:
                self.writers[name] = [writers]
                self.note(OVERWRITTEN % name)
                return
            self.withdraw(name, self.writers.pop(name)[-1])  # a part of it came late
        if self.current and self.current.name == name and self.current.wanted() != {host}:
            if self.current.manifest:
                self.withdraw(name, self.current.wanted())
            self.current = None
        self.answers.setdefault(name, {})[host] = said
        self.order.pop(name, None)
        self.order[name] = None
        written = now - said.age
        self.since[name] = max(self.since.get(name, written), written)
        for other in self.hosts:
            if other not in self.answers[name]:
                self.tell(other, SeekPart(name))

    def on_none(self, host, said: copy_messages.PartAbsent, now):
        name = said.name
        late = host in self.series.get(
            checkpoint_series(name), ()
        )  # it usually has: that is to come
        if name in self.answers and late:
            self.wait(name, "the part of %s is missing" % host)
        elif name in self.answers:
            self.answers[name].setdefault(host, None)

    def on_kept(self, host, said: copy_messages.PartKept, now):
        if self.current and said.number == self.current.number:
            part = CopiedPart(said.sha, said.list, said.bytes, said.stamp)
            self.current.parts[host] = part
            self.copy(self.current, host)
            self.publish(self.current, now)

    def on_copied(self, host, said: copy_messages.PartCopied, now):
        if self.current and said.number == self.current.number:
            self.current.copied.add(said.of)
            self.publish(self.current, now)

    def on_published(self, host, said: copy_messages.ManifestWritten, now):
        current = self.current
        if not current or said.number != current.number:
            return
        current.published.add(host)
        if current.published < current.holders():
            return
        self.current = None
        self.writers.setdefault(current.name, []).append(set(current.parts))
        self.series.setdefault(checkpoint_series(current.name), set()).update(current.parts)
        size = sum(part.bytes for part in current.parts.values())
        seconds = round(now - current.written, 1)
        name, hosts = current.name, tuple(sorted(current.published))
        done = run_events.Checkpoint(name, step_of(name), hosts, size, seconds)
        self.facts.append(done.document())

    def on_failed(self, host, said: copy_messages.CopyFailed, now):
        if self.current and said.number == self.current.number:
            why, of = said.why[:300], said.of
            if why and of in self.current.parts and not self.current.manifest:
                self.unfit.add(host)
                other = choose_copy_host(self.hosts, of, self.unfit, self.groups)
                if other not in self.unfit:
                    self.note("%s keeps no copies now (%s): %s does" % (host, why, other))
                    self.copy(self.current, of)
                    return
                self.unfit.clear()  # all are as bad: the next one again
            if why:
                self.note("%s is not copied: %s: %s" % (self.current.name, host, why))
            if why and not self.current.manifest:
                self.try_again(self.current, now)
            self.current = None

    def is_idle(self):
        """Nothing is copied, and no host has to answer."""
        waits = any(len(self.answers[name]) < len(self.hosts) for name in self.order)
        return self.ended or not (self.current or waits)

    def end(self, patterns):
        if not self.seen:
            self.note("no checkpoint: no file of the ranks matches %s" % " ".join(patterns))

    # -- what follows --

    def begin(self, now):
        """The newest that is finished everywhere; those that were found before it are skipped."""
        if self.current or self.ended or now < self.tried + AGAIN:
            return
        names = list(self.order)
        for name in reversed(names):
            found = self.answers[name]
            parts = {host: part for host, part in found.items() if part}
            lacks = list_missing_files(list(parts.values()))
            if lacks:
                self.wait(name, "%s is missing" % lacks[0])
            if lacks or len(found) < len(self.hosts):
                continue
            skipped = names[: names.index(name) + 1]
            written = [self.since.pop(one) for one in skipped]
            for one in skipped:
                del self.answers[one], self.order[one]
            self.number += 1
            self.current = CopyInProgress(self.number, name, found, written[-1])
            for host, part in sorted(parts.items()):
                self.tell(host, KeepPart(self.number, name, part.stamp))
            return

    def copy(self, current, host):
        """Let another host keep a second copy of its part."""
        to = choose_copy_host(self.hosts, host, self.unfit, self.groups)
        current.partners[host] = [to] if to else []
        if to:
            part, at = current.parts[host], self.places[host]
            self.tell(to, CopyPart(current.number, host, part, at))

    def publish(self, current, now):
        """Once every part is on two hosts."""
        copied = len(self.hosts) == 1 or current.copied == current.wanted()
        if current.wanted() != set(current.parts) or not copied:
            return
        current.manifest = Manifest(
            name=current.name,
            number=current.number,
            age=0.0,
            parts=current.parts,
            step=step_of(current.name),
            holders={host: [host] + current.partners[host] for host in current.parts},
        )
        for host in sorted(current.holders()):
            self.tell_publish(host, current, now)

    def tell_publish(self, host, current, now):
        age = max(0.0, now - current.written)
        self.tell(host, WriteManifest(current.manifest.replace(age=age)))

    def try_again(self, failed, now):
        """Later, unless a newer one is finished by then."""
        self.current, self.tried = None, now
        if failed.name not in self.order:
            self.answers[failed.name] = failed.found
            self.order = dict.fromkeys([failed.name] + list(self.order))
            self.since[failed.name] = failed.written

    def wait(self, name, why):
        if self.waits.get(name) != why:
            self.waits[name] = why
            for host, part in self.answers[name].items():
                if part:
                    self.tell(host, NoteWait(name, why))

    def withdraw(self, name, writers):
        """It was published without a part that was found later."""
        for host in self.hosts if writers else ():
            self.tell(host, WithdrawManifest(name))
        self.facts.append(run_events.Checkpoint(name, withdrawn=True).document())

    def tell(self, host, order: CopyOrder):
        self.orders.append((host, hub_orders.TellCopier(order).document()))

    def note(self, text):
        if text not in self.said:
            self.said.add(text)
            self.facts.append(run_events.Noted(text).document())


class CopyInProgress:
    """A checkpoint that is being copied. `found`: as its hosts have found it."""

    def __init__(self, number, name, found, written):
        self.number, self.name, self.found, self.written = number, name, found, written
        self.parts = {}  # host -> its part, on its disk
        self.partners = {}  # host -> where its part is copied to
        self.copied = set()  # hosts whose part is on the disk of their partner
        self.published = set()
        self.manifest = None  # type: Manifest | None  # once all parts are on two disks: from then on it is complete

    def wanted(self):
        return {host for host, part in self.found.items() if part}

    def holders(self):
        return {holder for host in self.wanted() for holder in [host] + self.partners[host]}
