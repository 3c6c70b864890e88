"""What a host answers while an environment is installed on it, and about what has become of one."""

from ipexctl.common.message import AbsolutePath, EnvKey, Line, Message, Variant


class EnvState(Message):
    """What a host has of the environment that is to be installed."""

    root: "AbsolutePath"
    built: bool
    mark: str  # which build it is, "" if there is none
    proved: bool  # with the MPI that was named
    current: str  # the key of the host's current environment, "" if it has none
    changed: "list[tuple[str, str, str, bool]]"  # by hand: package, was, now, whether it is gone
    packages: "list[tuple[str, str]]"  # of the current one, with their versions
    asked: bool  # the project has asked for it before
    before: str  # the key of the one that the project uses, else of the current one
    own: bool  # that is the project's own choice
    before_packages: "list[tuple[str, str]]"


class ExistingEnv(Message):
    """An environment that another tool made."""

    path: "AbsolutePath"
    python: "tuple[int, int, int]"
    packages: "dict[str, str]"  # their versions
    mpirun: bool  # there is one in it


class EnvChanged(Message):
    """The end of a step that makes an environment, or makes it the current one."""

    changed: bool  # False: it was so already


class EnvProof(Message):
    """What the test of an environment has shown."""

    torch: str  # its version
    ranks: int  # that agreed
    step: str  # the type of numbers of a training step that IPEX completed: bf16; "" without IPEX
    modules: "list[tuple[str, str]]"  # that were imported, torch first, with their versions
    imported: "list[Line]"  # other modules


class EnvDrift(Message):
    """An environment of a host, compared with what was built there."""

    root: str
    current: "EnvKey | None" = None  # None: the host has no such environment
    packages: "list[tuple[str, str]]" = []
    changed: "list[tuple[str, str, str, bool]]" = []  # as in EnvState
    files: "list[tuple[str, str]]" = []  # the path in it, and what is wrong
    more: int = 0  # files that are left out
    looked: int = 0  # files that were compared
    hashed: int = 0  # files of them that were read, too, and not only compared by size and time


class LockHolder(Message):
    """The install that keeps others waiting on a host; "": none, or one of another user."""

    who: "Line" = ""
    since: int = 0  # seconds


class LockEvent(Variant):
    """What becomes of an install that asks for the lock of a host."""


class LockTaken(LockEvent):
    """It has the lock, until it lets go of it."""


class LockAwaited(LockEvent):
    """Another one has it."""

    holder: LockHolder
