"""The steps of a play that a host gets, and what it reports while it runs them."""

from ipexctl.common.message import AnyText, Document, Message, Variant


class StepOrder(Message):
    number: int
    module: "AnyText"  # of remote/play
    args: "Document"  # as the step of this kind declares them
    sudo: bool
    ignore_errors: bool
    retries: int
    delay: float  # seconds between two tries


class StepFailure(Message):
    what: "AnyText"
    why: "AnyText"
    hint: "AnyText"
    slug: "AnyText"


class PlayEvent(Variant):
    """What a host reports of a step, by its number in the play."""


class StepBegun(PlayEvent):
    number: int


class StepPrinted(PlayEvent):
    number: int
    text: "AnyText"


class FileNeeded(PlayEvent):
    """The step waits for the content of a file that it names."""

    number: int
    sha256: "AnyText"


class StepEnded(PlayEvent):
    number: int
    changed: "bool | None" = None  # None: it cannot be known
    detail: "AnyText" = ""
    diff: "AnyText" = ""
    # what a check of later steps can know: remote/play/task.py
    reads: "list[AnyText]" = []
    writes: "list[AnyText]" = []
    failure: "StepFailure | None" = None
