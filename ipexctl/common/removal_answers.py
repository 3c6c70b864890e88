"""What a host answers about what it keeps, and what it removes of that (remote/remove/)."""

from ipexctl.common.env_answers import EnvUser
from ipexctl.common.message import EnvKey, Line, Message

# --- everything ----------------------------------------------------------------------------------


class WorkOfOwner(Message):
    """What is there of one of the people who share an account on the host."""

    by: "Line"  # user@machine
    runs: int
    environments: int
    projects: "list[Line]"  # that requested the environments


class RootSurvey(Message):
    """What `remove --all` would remove."""

    root: "Line"
    there: bool = False
    made: bool = False  # something in it was made by ipexctl
    bytes: int = 0
    parts: "list[tuple[Line, int]]" = []  # names in the root and their bytes
    busy: "list[Line]" = []  # why nothing can be removed now
    busy_by: "list[Line]" = []  # user@machine: who started the runs that are active or queued
    stays: "list[Line]" = []  # names that ipexctl did not make
    caches: "list[tuple[Line, int]]" = []  # of torch.compile, which stay as well
    owners: "list[WorkOfOwner]" = []


class RootRemoved(Message):
    """What `remove --all` removed; nothing if the root is in use."""

    bytes: int = 0
    busy: "list[Line]" = []  # as in RootSurvey
    busy_by: "list[Line]" = []
    left: "list[Line]" = []  # what could not be removed, and why


# --- runs and projects ---------------------------------------------------------------------------


class KindPruned(Message):
    """What is removed of one kind."""

    kind: str  # "runs", "copies" or "blobs"
    count: int
    bytes: int


class HostPruned(Message):
    """What is removed because it exceeds the limits, or with --check would be."""

    found: "list[KindPruned]" = []
    runs: "list[tuple[Line, Line]]" = []  # id and name of those that are removed as a whole


class RunRemoved(Message):
    """The end of the removal of a run."""

    removed: bool  # it was here


# --- environments --------------------------------------------------------------------------------


class EnvKept(Message):
    """An environment."""

    key: "EnvKey"
    whole: bool  # its build ended
    proved: bool  # its test succeeded
    size: int  # bytes
    shared: int  # bytes of them that other environments of the host use, too
    wheels: "list[Line]"  # names of their files
    requested: "list[tuple[Line, Line]]"  # name and version of what -r asked for
    use: "Line"  # the path of the environment that --use-env named; "": it is made of wheels
    built: "Line"  # the date; "" unknown
    users: "list[EnvUser]"  # that asked for it; none: unknown
    changed: "list[tuple[str, str, str, bool]]"  # by hand: package, was, now, whether it is gone


class EnvsKept(Message):
    """The environments of a host."""

    root: "Line"
    current: "EnvKey | None" = None  # None: there is none
    previous: "EnvKey | None" = None
    envs: "list[EnvKept]" = []
    size: int = 0  # bytes of all together, a file that several share counted once
    blobs: int = 0  # bytes


class EnvsRemoved(Message):
    """What is removed of environments, or with --check would be."""

    removed: "list[tuple[Line, int]]"  # keys and bytes
    kept: "list[tuple[Line, Line]]"  # keys, and why
    blobs: int  # that no other environment needs
    blob_bytes: int
