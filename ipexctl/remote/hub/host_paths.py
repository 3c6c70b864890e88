"""Find out which hosts of a run cannot reach each other, from the reports of each host.

No I/O and no clock: `now` is given.
"""

from ipexctl.common import run_events

QUIET = 10.0  # seconds without a message from a host before a note says so
MOST_SENTENCES = 16  # sentences at a time
RETRIES = 3  # retransmissions of the same bytes after which an address counts as not answering
SECONDS = 10.0  # seconds after which it does, too
MOST_ADDRESSES = 256  # in a report of one host


class HostPaths:
    def __init__(self, hosts):
        """Begin with the planned addresses. `hosts`: (name, address) of each, the hub's first."""
        self.first = hosts[0][0]
        self.planned = hosts
        self.own = {}  # host -> addresses of its ranks, by its last report
        self.owners = {}  # type: dict[str, set[str]]  # hosts that have an address
        self.count_owners()
        self.unanswered = {}  # host -> {address: since when}
        self.quiet = {}  # host -> since when
        self.reported = {}  # (what, its opposite, hosts) -> since when

    def take(self, host, own, peers, now):
        self.own[host] = own
        self.count_owners()
        self.unanswered[host] = {address: now - seconds for address, seconds in peers}

    def count_owners(self):
        self.owners = {}
        reported = [(name, address) for name, own in self.own.items() for address in own]
        for name, address in self.planned + reported:
            self.owners.setdefault(address, set()).add(name)

    def listen(self, host, silence, now):
        """Note the seconds since the hub received a message from the host."""
        if silence >= QUIET:
            self.quiet.setdefault(host, now - silence)
        else:
            self.quiet.pop(host, None)

    def forget(self, host):
        self.quiet.pop(host, None)
        self.unanswered.pop(host, None)
        self.own.pop(host, None)
        self.planned = [(name, address) for name, address in self.planned if name != host]
        self.count_owners()
        for key in [key for key in self.reported if host in key[2]]:
            del self.reported[key]  # the host is lost, so it will not be reached again

    def cuts(self):
        found = {}  # type: dict[tuple, float]
        for host, since in self.quiet.items():
            pair = (self.first, host)
            found["%s hears nothing from %s" % pair, "%s hears %s again" % pair, pair] = since
        for host, peers in self.unanswered.items():
            for address, since in peers.items():
                owners = self.owners.get(address, set())
                known = {host} | owners
                if len(owners) == 1 and len(known) == 2 and not known & set(self.quiet):
                    both = " and ".join(sorted(known))
                    key = (
                        "ranks on %s get no answer from each other" % both,
                        "ranks on %s get answers from each other again" % both,
                        tuple(sorted(known)),
                    )
                    found[key] = min(since, found.get(key, since))
        return dict(sorted(found.items())[:MOST_SENTENCES])

    def news(self, now):
        """Return a (text, current cuts) pair for each change; a cut is [what, seconds]."""
        cuts, before = self.cuts(), self.reported
        after = {key: min(since, before.get(key, since)) for key, since in cuts.items()}
        left = [[what, round(now - since, 1)] for (what, _, _), since in after.items()]
        begun = ["%s for %d s" % (key[0], now - after[key]) for key in after if key not in before]
        over = ["%s after %d s" % (key[1], now - before[key]) for key in before if key not in after]
        self.reported = after
        return [(text, left) for text in begun + over]


class UnansweredAddresses:
    """The addresses that do not answer the ranks of one host: its kernel retransmits to them. A
    process that is stopped does not look like that: its kernel answers.
    """

    def __init__(self):
        self.since = {}  # key of a socket -> when it was first seen to retransmit
        self.own = set()  # addresses of this host
        self.told = set()

    def report(self, rows, now):
        """Return an event, or None if nothing changed. `rows`: (key, retries) of ranks' sockets."""
        self.since = {key: self.since.get(key, now) for key, retries in rows if retries}
        peers = {}  # type: dict[str, float]
        for key, retries in rows:
            seconds = now - self.since.get(key, now)
            if retries >= RETRIES and seconds >= SECONDS:
                peers[key[2]] = max(seconds, peers.get(key[2], 0.0))
        own = self.own | {key[0] for key, _ in rows}
        if (own, set(peers)) == (self.own, self.told):
            return None
        self.own, self.told = own, set(peers)
        peers_told = sorted(peers.items())[:MOST_ADDRESSES]
        return run_events.Unanswered(sorted(own)[:MOST_ADDRESSES], peers_told).document()
