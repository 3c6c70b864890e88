"""The record of a run, replicated by Raft (PySyncObj) among its first hosts, over their links.

What Raft needs of the disk is not kept: a member whose process is new has forgotten its vote and
its log, so it neither votes nor stands before the one that leads has written to it.
"""

import json
import socket
import time

from ipexctl.common.attempt_record import RecordLine
from ipexctl.common.keeper_messages import LogEntry, Vote
from ipexctl.common.message import MYPY

if MYPY:
    from collections.abc import Callable
    from typing import Any

inet_ntop = socket.inet_ntop
from pysyncobj import syncobj  # noqa: E402
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
MOST_BYTES = 1 << 18  # of lines in one message, below the limit of a link
FARTHEST = 1000 * 1000  # above its own term: a voter refuses it, as no later term could be higher
REGULAR, NO_OP = b"\0", b"\1"  # first byte of a command in PySyncObj's log
# The kinds of messages that voters send: their fields, and whether there are entries. PySyncObj has
# others, for what a run does not do: snapshots of its state, other members, other versions.
FIELDS = {
    "request_vote": {"term", "last_log_index", "last_log_term"},
    "response_vote": {"term"},
    "append_entries": {"term", "commit_index", "prevLogIdx", "prevLogTerm"},
    "next_node_idx": {"next_node_idx", "reset", "success"},
    "apply_command": set(),
}  # type: dict[str, set[str]]
TERMS = ("term", "last_log_term", "prevLogTerm")  # those of the fields that are terms


class JsonCommands:
    """Takes the place of pickle in PySyncObj, which reads the commands in its log with it."""

    @staticmethod
    def dumps(command: "tuple[Any, ...]") -> bytes:
        return json.dumps(command).encode("ascii")

    @staticmethod
    def loads(data: bytes) -> "tuple[Any, ...]":
        return tuple(json.loads(data.decode("ascii")))


syncobj.pickle = JsonCommands


class Member(SyncObj):  # type: ignore[misc]
    """A voter. `send(name, message)` has to deliver a message to `take` of another member; `tick`
    has to be called a few times per second. `apply(line, term)` gets the agreed lines in order."""

    def __init__(
        self,
        name: str,
        names: "list[str]",
        send: "Callable[[str, Vote], object]",
        apply: "Callable[[RecordLine, int], object]",
        returned: bool = False,
    ) -> None:
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
            appendEntriesBatchSizeBytes=MOST_BYTES,
        )
        peers = [node for member, node in self.nodes.items() if member != name]
        SyncObj.__init__(self, self.nodes[name], peers, conf, transport=self.links)
        conf.raftMinTimeout, conf.raftMaxTimeout = SHORTEST, LONGEST
        conf.appendEntriesPeriod = BEATS

    def propose(self, line: RecordLine, term: int) -> None:
        """Add a line to the record once most members have it. `term`: that of this leader."""
        self.add(line.document(), term)

    @replicated  # type: ignore[untyped-decorator]  # pysyncobj has no types
    def add(self, line: "dict[str, Any]", term: int) -> None:
        """Apply a line on which the members agree. `term`: of its leader, maybe an earlier one."""
        self.apply(RecordLine.read(line), term)

    def tick(self, connected: "set[str]") -> None:
        """Let Raft do what is due. `connected`: names of the members that are connected."""
        for name in connected - self.connected:
            self.links._onNodeConnected(self.nodes[name])
        for name in self.connected - connected:
            self.links._onNodeDisconnected(self.nodes[name])
        self.connected = set(connected)
        if not self.returned:
            self.doTick(0)

    def take(self, name: str, vote: Vote) -> None:
        """Handle a Raft message of another member, but no candidacy against a working leader.

        Raises ValueError, KeyError or TypeError for a message that no voter sends.
        """
        message = self.read_vote(vote)
        kind = message["type"]
        if kind == "append_entries" and message["term"] >= self._getTerm():
            self.returned, self.heard_at = False, time.monotonic()
        elif kind == "request_vote" and (self.returned or self.follows()):
            return  # a member that was away must not depose a leader that works
        self.links._onMessageReceived(self.nodes[name], message)
        self.tick(self.connected)

    def read_vote(self, vote: Vote) -> "dict[str, Any]":
        """Return the message as PySyncObj knows it."""
        if vote.numbers.keys() != FIELDS[vote.vote]:
            raise ValueError("fields of a vote: %.200s" % sorted(vote.numbers))
        self.check_terms(vote)
        entries = [(self.command_of(entry), entry.index, entry.term) for entry in vote.entries]
        message = dict(vote.numbers, type=vote.vote)  # type: dict[str, Any]
        if vote.vote == "append_entries":
            message["entries"] = entries
        elif vote.vote == "apply_command":
            ((message["command"], _, _),) = entries
        return message

    def check_terms(self, vote: Vote) -> None:
        """Raise ValueError if a term of the message is too far above the own one."""
        terms = [vote.numbers[name] for name in TERMS if name in vote.numbers]
        for entry in vote.entries:
            terms += [entry.term, entry.line_term]
        for term in terms:
            check_term(term, self.term())

    def command_of(self, entry: LogEntry) -> bytes:
        """Return the call of `add` for an entry, as PySyncObj keeps it."""
        if entry.line is None:
            return NO_OP
        number = self._methodToID[self._getFuncName("add")]
        return REGULAR + JsonCommands.dumps((number, (entry.line.document(), entry.line_term)))

    def follows(self) -> bool:
        """Return whether another member leads and was heard from recently."""
        leads = self._getLeader()
        recent = time.monotonic() - self.heard_at < SHORTEST
        return leads is not None and leads.id in self.connected and recent

    def leads(self) -> bool:
        return bool(self._isLeader())

    def term(self) -> int:
        return int(self._getTerm())


class Links(Transport):  # type: ignore[misc]
    """PySyncObj's transport, over the connections that the keeper has."""

    ready = True

    def __init__(self, send: "Callable[[str, Vote], object]") -> None:
        Transport.__init__(self, None, None, None)
        self.to = send

    def send(self, node: Node, message: "dict[str, Any]") -> None:
        kind, entries = message["type"], message.get("entries", [])
        if kind == "apply_command":
            entries = [(message["command"], 0, 0)]
        numbers = {name: message[name] for name in FIELDS[kind]}
        self.to(node.id, Vote(kind, numbers, [read_entry(*entry) for entry in entries]))

    def destroy(self) -> None:
        pass


def check_term(term: int, own: int) -> None:
    """Raise ValueError if a term is too far above one's own."""
    if term > own + FARTHEST:
        raise ValueError("a term of %d, and here it is %d" % (term, own))


def read_entry(command: bytes, index: int, term: int) -> LogEntry:
    """Return the entry of a command in PySyncObj's log."""
    if command[:1] == NO_OP:
        return LogEntry(index, term)
    _, (line, line_term) = JsonCommands.loads(command[1:])
    return LogEntry(index, term, RecordLine.read(line), line_term)
