"""Messages with which a host reports the copies of checkpoints that it holds."""

from ipexctl.common.message import Line, Message


class CopiedPart(Message):
    """What one host wrote of a checkpoint."""

    sha: "Line"  # of the list of its files
    list: int  # bytes of that list
    bytes: int  # of its files


class Manifest(Message):
    """A checkpoint of which every part is on two hosts."""

    name: "Line"
    number: int  # counts the complete checkpoints of a run
    age: float
    parts: "dict[Line, CopiedPart]"  # by the host that wrote it
    step: "int | None" = None
    holders: "dict[Line, list[Line]]" = {}  # by writer: the hosts that have its part
    key: "Line" = ""  # checkpoint_names.checkpoint_key
    members: "list[Line]" = []  # what the patterns match of it; none: its name alone
    gap: float = 0.0  # seconds, the longest time between two files of a checkpoint so far


class Unpublished(Message):
    """A checkpoint that is not complete yet."""

    name: "Line"
    step: "int | None"
    bytes: int
    age: float
    why: "Line"


class CopiesReport(Message):
    """The copies on one host of the run; other hosts may share its home."""

    host: "Line"
    manifests: "list[Manifest]"
    held: "list[Line]"  # sha of parts that are intact here
    pending: "list[Unpublished]"


class CopiesReports(Message):
    """All copies of a run's checkpoints that a host has."""

    reports: "list[CopiesReport]"  # several where hosts share a home


class PartFiles(Message):
    """What one host wrote of a checkpoint."""

    name: "Line"  # of the checkpoint
    files: "list[tuple[str, str, int]]"  # path below the folder of the ranks, sha256, bytes
