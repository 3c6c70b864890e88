"""What the command that starts a run records about it, for those who list runs."""

from ipexctl.common.message import Line, Message

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from typing_extensions import Self


class RunAbout(Message):
    name: "Line" = ""
    hosts: "tuple[Line, ...]" = ()
    ranks: int = 0
    command: "Line" = ""
    by: "Line" = ""  # user@machine
    folder: "Line" = ""
    typed_in: "Line" = ""  # the folder where the command was typed
    cwd: "Line" = ""  # where ranks started, below the top of what was sent
    commit: "Line" = ""  # of the folder's Git work tree; files may have been changed since
    version: "Line" = ""  # of ipexctl
    asked: "Line" = ""  # the name that was asked for, where another run had it
    any_of: int = 0  # while it is queued: it takes so many of the hosts; 0: all

    @classmethod
    def read(cls, document: "dict[str, Any]") -> "Self":
        """Return what is known: another version may have recorded something else."""
        if not isinstance(document, dict):
            raise TypeError("%s: not an object: %.80r" % (cls.__name__, document))
        known = {}  # type: dict[str, Any]
        for name in cls._fields.intersection(document):
            try:
                known.update(vars(cls.read_fields({name: document[name]})))
            except TypeError:
                continue
        return cls(**known)


class EnvNeeded(Message):
    """A run with keepers needs these environments, given by their folders, while it is queued and
    between two attempts: RUN/environment.HOST."""

    prefixes: "list[str]"
    about: RunAbout
