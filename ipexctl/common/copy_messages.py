"""What the processes that copy checkpoints tell the hub (remote/checkpoints/publication.py), and
what it orders them. The supervisors pass both on.
"""

from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.common.message import Variant

COPY_WORKER = "checkpoints.copy_worker.work"  # its guardian imports it by name


class CopierEvent(Variant):
    """What a copy process reports: one of the classes below."""


class CopierServes(CopierEvent):
    """The process serves its parts at this port: sent once, and again after it was killed."""

    port: int  # where it serves its parts, 0 if no other host needs them
    address: str = ""  # as the hub knows it


class CopierNote(CopierEvent):
    """Something that users should know."""

    text: str


class CopierEnded(CopierEvent):
    """The host's copy process has ended; its supervisor reports that."""


class PartFound(CopierEvent):
    """The host has a finished part of a checkpoint."""

    name: str  # its key: checkpoint_names.checkpoint_key
    stamp: str  # as it was found
    names: "list[str]"  # of its files
    needs: "list[str]"  # files that an index in it names
    age: float
    members: "list[str]" = []  # what the patterns match of it
    inherited: "list[str]" = []  # those of its files that were there before the ranks
    gap: float = 0.0  # seconds, the longest time between two files of a checkpoint so far


class PartAbsent(CopierEvent):
    """The host has no part of a checkpoint."""

    name: str


class LastLooksDone(CopierEvent):
    """What the ranks had written when they ended was reported, or is unfinished."""


class PartKept(CopierEvent):
    """A part is kept on the disk of the host that wrote it."""

    number: int
    sha: str  # as in CopiedPart
    list: int
    bytes: int


class PartCopied(CopierEvent):
    """A part is on the disk of the partner, which reports that."""

    number: int
    of: str  # the host that wrote it


class ManifestWritten(CopierEvent):
    """The manifest of a checkpoint is on the disk of the host."""

    number: int


class CopyFailed(CopierEvent):
    """The host could not do its part of a checkpoint."""

    number: int
    why: str  # empty if the script wrote to the checkpoint meanwhile
    of: "str | None" = None  # whose part it was to copy


# --- orders --------------------------------------------------------------------------------------


class CopyOrder(Variant):
    """An order for a copy process: one of the classes below."""


class SeekPart(CopyOrder):
    """Report the part of a checkpoint once it is finished, or that there is none."""

    name: str


class TakeLastLooks(CopyOrder):
    """The ranks have ended: look a few times more, and say when that is done."""


class NoteWait(CopyOrder):
    """Note why a checkpoint is not copied yet, for commands that ask this host."""

    name: str
    why: str


class KeepPart(CopyOrder):
    """Copy the host's part of a checkpoint on its own disk."""

    number: int
    name: str
    stamp: str  # as it was found
    without: "list[str]" = []  # files that another host has written


class CopyPart(CopyOrder):
    """Fetch a part from the host whose partner this one is."""

    number: int
    of: str  # the host that wrote it
    part: CopiedPart
    at: "tuple[str, int]"  # where that host serves it


class WriteManifest(CopyOrder):
    """Publish a checkpoint of which every part is on two hosts."""

    manifest: Manifest


class WithdrawManifest(CopyOrder):
    """Withdraw a checkpoint that was published without a part found later."""

    number: int
