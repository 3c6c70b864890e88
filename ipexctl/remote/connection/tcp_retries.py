"""From which addresses the ranks of this host get no answer: the kernel sends to them what it has
sent before. A process that only stands still does not look like that: its kernel answers.
"""

RETRIES = 3  # of the same bytes
SECONDS = 10.0
MOST = 256  # addresses that are told


class Unanswered:
    def __init__(self):
        self.since = {}  # key of a socket -> when it was first seen to send again
        self.own = set()  # addresses of this host
        self.told = set()

    def report(self, rows, now):
        """`rows`: (key, retries) of each socket of a rank. None: nothing has changed."""
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
        return {
            "event": "unanswered",
            "own": sorted(own)[:MOST],
            "peers": [list(row) for row in sorted(peers.items())[:MOST]],
        }
