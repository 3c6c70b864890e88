"""What the processes that copy checkpoints tell the hub (remote/checkpoints/publication.py), and
what it orders them. The supervisors pass both on.
"""

from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.common.message import MYPY, Marked, Message

if MYPY:
    from typing import Any


class CopierSaid(Message):
    copier_event = ""  # its name in a document

    def document(self) -> "dict[str, Any]":
        return dict(super().document(), event="shelf", shelf=self.copier_event)


class CopierServes(CopierSaid):
    """The process serves its parts at this port: sent once, and again after it was killed."""

    copier_event = "serves"
    port: int  # where it serves its parts, 0 if no other host needs them
    address: str = ""  # as the hub knows it


class CopierNote(CopierSaid):
    copier_event = "note"
    text: str


class CopierEnded(CopierSaid):
    """The host's copy processes have ended; its supervisor reports that."""

    copier_event = "ended"


class PartFound(CopierSaid):
    """The host has a finished part of a checkpoint."""

    copier_event = "ready"
    name: str  # its key: checkpoint_names.checkpoint_key
    stamp: str  # as it was found
    names: "list[str]"  # of its files
    needs: "list[str]"  # files that an index in it names
    age: float
    members: "list[str]" = []  # what the patterns match of it
    inherited: "list[str]" = []  # those of its files that were there before the ranks
    gap: float = 0.0  # seconds, the longest time between two files of a checkpoint so far


class PartAbsent(CopierSaid):
    """The host has no part of a checkpoint."""

    copier_event = "none"
    name: str


class PartKept(CopierSaid):
    """A part is kept on the disk of the host that wrote it."""

    copier_event = "kept"
    number: int
    sha: str  # as in CopiedPart
    list: int
    bytes: int


class PartCopied(CopierSaid):
    """A part is on the disk of the partner, which reports that."""

    copier_event = "copied"
    number: int
    of: str  # the host that wrote it


class ManifestWritten(CopierSaid):
    copier_event = "published"
    number: int


class CopyFailed(CopierSaid):
    copier_event = "failed"
    number: int
    why: str  # empty if the script wrote to the checkpoint meanwhile
    of: "str | None" = None  # whose part it was to copy


KINDS = {kind.copier_event: kind for kind in CopierSaid.__subclasses__()}


def read(document: "dict[str, Any]") -> CopierSaid:
    return KINDS[document["shelf"]].read(document)


# --- orders --------------------------------------------------------------------------------------


class CopyOrder(Marked):
    """An order for a copy process: one of the classes below."""


class SeekPart(CopyOrder):
    """Report the part of a checkpoint once it is finished, or that there is none."""

    seek: str  # its name


class NoteWait(CopyOrder):
    """Note why a checkpoint is not copied yet, for commands that ask this host."""

    waits: str  # its name
    why: str


class KeepPart(CopyOrder):
    keep: int  # its number
    name: str
    stamp: str  # as it was found
    without: "list[str]" = []  # files that another host has written


class CopyPart(CopyOrder):
    copy: int  # its number
    of: str  # the host that wrote it
    part: CopiedPart
    at: "tuple[str, int]"  # where that host serves it


class WriteManifest(CopyOrder):
    """Publish a checkpoint of which every part is on two hosts."""

    publish: Manifest


class WithdrawManifest(CopyOrder):
    """Withdraw a checkpoint that was published without a part found later."""

    withdraw: int  # its number
