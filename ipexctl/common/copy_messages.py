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
    """Once, or again where the process was killed."""

    copier_event = "serves"
    port: int  # where it gives its parts, 0 where no other host asks
    address: str = ""  # as the hub knows it


class CopierNote(CopierSaid):
    copier_event = "note"
    text: str


class CopierEnded(CopierSaid):
    """Its processes were killed: its supervisor says so."""

    copier_event = "ended"


class PartFound(CopierSaid):
    """What is here of a checkpoint is finished."""

    copier_event = "ready"
    name: str
    stamp: str  # as it was found
    names: "list[str]"  # of its files
    needs: "list[str]"  # files that an index in it names
    age: float


class PartAbsent(CopierSaid):
    """Nothing is here of that name."""

    copier_event = "none"
    name: str


class PartKept(CopierSaid):
    """On the disk of the host that wrote it."""

    copier_event = "kept"
    number: int
    sha: str  # as in CopiedPart
    list: int
    bytes: int
    stamp: str


class PartCopied(CopierSaid):
    """On the disk of the partner, which says so."""

    copier_event = "copied"
    number: int
    of: str  # the host that wrote it


class ManifestWritten(CopierSaid):
    copier_event = "published"
    number: int


class CopyFailed(CopierSaid):
    copier_event = "failed"
    number: int
    why: str  # empty where the script has written to it meanwhile
    of: "str | None" = None  # whose part it was to copy


KINDS = {kind.copier_event: kind for kind in CopierSaid.__subclasses__()}


def read(document: "dict[str, Any]") -> CopierSaid:
    return KINDS[document["shelf"]].read(document)


# --- orders --------------------------------------------------------------------------------------


class CopyOrder(Marked):
    """One of those below."""


class SeekPart(CopyOrder):
    """Say whether a part of it is here, once that is finished."""

    seek: str  # its name


class NoteWait(CopyOrder):
    """Why a checkpoint is not copied yet, for commands that ask this host."""

    waits: str  # its name
    why: str


class KeepPart(CopyOrder):
    keep: int  # its number
    name: str
    stamp: str  # as it was found


class CopyPart(CopyOrder):
    copy: int  # its number
    of: str  # the host that wrote it
    part: CopiedPart
    at: "tuple[str, int]"  # where that host gives it


class WriteManifest(CopyOrder):
    """Every part of it is on two hosts."""

    publish: Manifest


class WithdrawManifest(CopyOrder):
    """It was published without a part that was found later."""

    withdraw: str  # its name
