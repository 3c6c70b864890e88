"""Find out which hosts of a run cannot reach each other, from the reports of each host.

No I/O and no clock: `now` is given.
"""

from ipexctl.common import run_events

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    CutKey = tuple[str, str, tuple[str, ...]]  # what, its opposite, hosts
    Cut = tuple[str, float]  # what, seconds
    SocketKey = tuple[str, int, str, int]

QUIET = 10.0  # seconds without a message from a host before a note says so
MOST_SENTENCES = 16  # sentences at a time
RETRIES = 3  # retransmissions of the same bytes after which an address counts as not answering
SECONDS = 10.0  # seconds of retransmissions after which it also does
MOST_ADDRESSES = 256  # in a report of one host


class HostPaths:
    def __init__(self, hosts: "list[tuple[str, str]]") -> None:
        """Begin with the planned addresses. `hosts`: (name, address) of each, the hub's first."""
        self.first = hosts[0][0]
        self.planned = hosts
        # host -> addresses of its ranks, by its last report
        self.own = {}  # type: dict[str, list[str]]
        self.owners = {}  # type: dict[str, set[str]]  # hosts that have an address
        self.count_owners()
        # host -> {address: since when}
        self.unanswered = {}  # type: dict[str, dict[str, float]]
        self.quiet = {}  # type: dict[str, float]  # host -> since when
        self.reported = {}  # type: dict[CutKey, float]  # since when

    def take(
        self, host: str, addresses: "list[str]", peers: "list[tuple[str, float]]", now: float
    ) -> None:
        self.own[host] = addresses
        self.count_owners()
        self.unanswered[host] = {address: now - seconds for address, seconds in peers}

    def count_owners(self) -> None:
        self.owners = {}
        reported = [(name, address) for name, listed in self.own.items() for address in listed]
        for name, address in self.planned + reported:
            self.owners.setdefault(address, set()).add(name)

    def listen(self, host: str, silence: float, now: float) -> None:
        """Note the seconds since the hub received a message from the host."""
        if silence >= QUIET:
            self.quiet.setdefault(host, now - silence)
        else:
            self.quiet.pop(host, None)

    def forget(self, host: str) -> None:
        self.quiet.pop(host, None)
        self.unanswered.pop(host, None)
        self.own.pop(host, None)
        self.planned = [(name, address) for name, address in self.planned if name != host]
        self.count_owners()
        for key in [key for key in self.reported if host in key[2]]:
            del self.reported[key]  # the host is lost, so it will not be reached again

    def cuts(self) -> "dict[CutKey, float]":
        """Return {(what, its opposite, hosts): since when} of hosts that are cut off."""
        cuts = {}  # type: dict[CutKey, float]
        for host, since in self.quiet.items():
            pair = (self.first, host)
            cuts["%s hears nothing from %s" % pair, "%s hears %s again" % pair, pair] = since
        for host, peers in self.unanswered.items():
            for address, since in peers.items():
                owners = self.owners.get(address, set())
                hosts = {host} | owners
                if len(owners) == 1 and len(hosts) == 2 and not hosts & set(self.quiet):
                    names = " and ".join(sorted(hosts))
                    key = (
                        "ranks on %s get no answer from each other" % names,
                        "ranks on %s get answers from each other again" % names,
                        tuple(sorted(hosts)),
                    )
                    cuts[key] = min(since, cuts.get(key, since))
        return dict(sorted(cuts.items())[:MOST_SENTENCES])

    def news(self, now: float) -> "list[tuple[str, list[Cut]]]":
        """Return a (text, current cuts) pair for each change; a cut is (what, seconds)."""
        cuts, old = self.cuts(), self.reported
        new = {key: min(since, old.get(key, since)) for key, since in cuts.items()}
        current: "list[Cut]" = [
            (sentence, round(now - since, 1)) for (sentence, _, _), since in new.items()
        ]
        began = ["%s for %d s" % (key[0], now - new[key]) for key in new if key not in old]
        ended = ["%s after %d s" % (key[1], now - old[key]) for key in old if key not in new]
        self.reported = new
        return [(text, current) for text in began + ended]


class UnansweredAddresses:
    """The addresses that do not answer the ranks of one host: its kernel retransmits to them. A
    process that is stopped does not look like that: its kernel answers.
    """

    def __init__(self) -> None:
        # when a socket was first seen to retransmit
        self.since = {}  # type: dict[SocketKey, float]
        self.own = set()  # type: set[str]  # addresses of this host
        self.told = set()  # type: set[str]

    def report(
        self, rows: "list[tuple[SocketKey, int]]", now: float
    ) -> "run_events.Unanswered | None":
        """Return an event, or None if nothing changed. `rows`: (key, retries) of ranks' sockets."""
        self.since = {key: self.since.get(key, now) for key, retries in rows if retries}
        peers = {}  # type: dict[str, float]
        for key, retries in rows:
            seconds = now - self.since.get(key, now)
            if retries >= RETRIES and seconds >= SECONDS:
                peers[key[2]] = max(seconds, peers.get(key[2], 0.0))
        addresses = self.own | {key[0] for key, _ in rows}
        if (addresses, set(peers)) == (self.own, self.told):
            return None
        self.own, self.told = addresses, set(peers)
        longest = sorted(peers.items())[:MOST_ADDRESSES]
        return run_events.Unanswered(sorted(addresses)[:MOST_ADDRESSES], longest)
