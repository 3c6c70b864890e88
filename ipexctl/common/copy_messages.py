"""What the processes that copy checkpoints tell the hub (remote/shelf/publication.py), and what it
orders them. The supervisors pass both on.
"""

from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.common.message import MYPY, Marked, Message

if MYPY:
    from typing import Any


class CopierSaid(Message):
    shelf = ""  # its name in a document

    def document(self) -> "dict[str, Any]":
        return dict(super().document(), event="shelf", shelf=self.shelf)


class CopierServes(CopierSaid):
    """Once, or again where the process was killed."""

    shelf = "serves"
    port: int  # where it gives its parts, 0 where no other host asks
    address: str = ""  # as the hub knows it


class CopierNote(CopierSaid):
    shelf = "note"
    text: str


class CopierEnded(CopierSaid):
    """Its processes were killed: its supervisor says so."""

    shelf = "ended"


class PartFound(CopierSaid):
    """What is here of a checkpoint is finished."""

    shelf = "ready"
    name: str
    stamp: str  # as it was found
    names: "list[str]"  # of its files
    needs: "list[str]"  # files that an index in it names
    age: float


class PartAbsent(CopierSaid):
    """Nothing is here of that name."""

    shelf = "none"
    name: str


class PartKept(CopierSaid):
    """On the disk of the host that wrote it."""

    shelf = "kept"
    number: int
    sha: str  # as in CopiedPart
    list: int
    bytes: int
    stamp: str


class PartCopied(CopierSaid):
    """On the disk of the partner, which says so."""

    shelf = "copied"
    number: int
    of: str  # the host that wrote it


class ManifestWritten(CopierSaid):
    shelf = "published"
    number: int


class CopyFailed(CopierSaid):
    shelf = "failed"
    number: int
    why: str  # empty where the script has written to it meanwhile
    of: "str | None" = None  # whose part it was to copy


KINDS = {kind.shelf: kind for kind in CopierSaid.__subclasses__()}


def read(said: "dict[str, Any]") -> CopierSaid:
    return KINDS[said["shelf"]].read(said)


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
