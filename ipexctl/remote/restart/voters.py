"""The record of a run, replicated by Raft (PySyncObj) among its first hosts, over their links.

What Raft needs of the disk is not kept: a member whose process is new has forgotten its vote and
its log, so it neither votes nor stands before the one that leads has written to it.
"""

import base64
import pickle
import socket
import time

from ipexctl.common.keeper_messages import Vote

inet_ntop = socket.inet_ntop
from pysyncobj.config import SyncObjConf  # noqa: E402
from pysyncobj.node import Node  # noqa: E402
from pysyncobj.syncobj import SyncObj, replicated  # noqa: E402
from pysyncobj.transport import Transport  # noqa: E402

socket.inet_ntop = inet_ntop  # PySyncObj replaced it with a function for Windows

SHORTEST, LONGEST = 6.0, 12.0  # seconds without a leader until a member stands
BEATS = 1.5  # seconds between heartbeats of the leader
FALLBACK = 8.0  # seconds without answers of most members, until a leader steps down
AT_FIRST = 0.5  # seconds until the first member stands at the start of a run; the next ones later
NEVER = 10**9


class Member(SyncObj):  # type: ignore[misc]
    """A voter. `send(name, message)` has to deliver a message to `take` of another member; `tick`
    has to be called a few times per second. `apply(line, term)` gets the agreed lines in order."""

    def __init__(self, name, names, send, apply, returned=False):
        self.name, self.apply = name, apply
        self.returned = returned  # since then, no leader has sent entries
        self.links = Links(send)
        self.nodes = {member: Node(member) for member in names}
        self.connected = set()  # type: set[str]
        self.heard_at = 0.0  # when its leader last sent entries
        first_wait = AT_FIRST * (1 + names.index(name))
        conf = SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=False,
            appendEntriesPeriod=AT_FIRST / 4,
            raftMinTimeout=first_wait,
            raftMaxTimeout=1.5 * first_wait,
            leaderFallbackTimeout=FALLBACK,
            connectionTimeout=LONGEST,
            logCompactionMinEntries=NEVER,
            logCompactionMinTime=NEVER,
        )
        peers = [node for member, node in self.nodes.items() if member != name]
        SyncObj.__init__(self, self.nodes[name], peers, conf, transport=self.links)
        conf.raftMinTimeout, conf.raftMaxTimeout = SHORTEST, LONGEST
        conf.appendEntriesPeriod = BEATS

    @replicated
    def add(self, line, term):
        """Add a line to the record. `term`: that of the leader, maybe an earlier one."""
        self.apply(line, term)

    def tick(self, connected):
        """Let Raft do what is due. `connected`: names of the members that are connected."""
        for name in connected - self.connected:
            self.links._onNodeConnected(self.nodes[name])
        for name in self.connected - connected:
            self.links._onNodeDisconnected(self.nodes[name])
        self.connected = set(connected)
        if not self.returned:
            self.doTick(0)

    def take(self, name, text):
        """Handle a Raft message of another member, but no candidacy against a working leader."""
        message = pickle.loads(base64.b64decode(text))
        kind = message["type"]
        if kind == "append_entries" and message["term"] >= self._getTerm():
            self.returned, self.heard_at = False, time.monotonic()
        elif kind == "request_vote" and (self.returned or self.follows()):
            return  # a member that was away must not depose a leader that works
        self.links._onMessageReceived(self.nodes[name], message)
        self.tick(self.connected)

    def follows(self):
        """Return whether another member leads and was heard from recently."""
        leads = self._getLeader()
        recent = time.monotonic() - self.heard_at < SHORTEST
        return leads is not None and leads.id in self.connected and recent

    def leads(self):
        return self._isLeader()

    def term(self):
        return self._getTerm()


class Links(Transport):  # type: ignore[misc]
    """PySyncObj's transport, over the connections that the keeper has."""

    ready = True

    def __init__(self, send):
        Transport.__init__(self, None, None, None)
        self.to = send

    def send(self, node, message):
        text = base64.b64encode(pickle.dumps(message, 2)).decode("ascii")
        self.to(node.id, Vote(text))

    def destroy(self):
        pass
