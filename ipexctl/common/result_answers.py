"""What a host answers about the folder of a run, and about a command that it was asked to run."""

from ipexctl.common.message import AnyText, ExitCode, Message


class FolderMark(Message):
    """Hosts that share the run's folder have the same mark; "" if it does not exist: removed, or
    the run used no separate folder."""

    mark: str


class OutputFiles(Message):
    """The files of a run that match patterns."""

    files: "list[tuple[AnyText, int]]"  # path and size
    more: bool = False  # there are others, more than can be listed


class PieceSent(Message):
    """The end of a piece of a file."""

    refused: "AnyText" = ""  # why it was not sent, or not all of it


class CommandEnded(Message):
    """The end of a command in an environment."""

    code: "ExitCode"  # 128 + the signal, as a shell does
