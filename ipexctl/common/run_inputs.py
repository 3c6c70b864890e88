"""What a run was started with, for reports and to compare runs. The controller writes and reads it;
hosts keep the documents."""

from ipexctl.common.message import AnyText, Line, Message


class HostInputs(Message):
    """A host's properties when the run began."""

    cpu: "Line" = ""  # its model
    cores: "int | None" = None
    quota: "float | None" = None  # CPUs that its control group allows
    governors: "tuple[Line, ...]" = ()
    max_khz: "int | None" = None
    turbo: "bool | None" = None
    memory: "int | None" = None
    thp: "Line" = ""  # transparent huge pages
    kernel: "Line" = ""
    load: "float | None" = None
    speed: "int | None" = None  # of its network interface, Mbit/s
    # socket, NUMA node, and its cores as the ids of their threads
    sockets: "tuple[tuple[int | None, int | None, tuple[tuple[int, ...], ...]], ...]" = ()
    variables: "dict[Line, Line]" = {}  # of its ranks
    reasons: "dict[Line, Line]" = {}  # why a variable is what it is
    before: "dict[Line, float]" = {}  # the phases before the run, and their seconds


class GitState(Message):
    """The state of the project on the controller."""

    commit: "Line" = ""
    branch: "Line" = ""
    changed: "tuple[tuple[Line, Line], ...]" = ()  # how, path
    diff: "AnyText" = ""


class RunInputs(Message):
    """What all hosts of the run have in common."""

    files: "dict[Line, Line] | None" = None  # the hashes of some; None: nothing was sent
    tree: "Line" = ""  # the hash of all
    environment: "Line" = ""  # its key
    packages: "dict[Line, Line]" = {}
    data: "dict[Line, Line]" = {}  # the version of each dataset
    findings: "tuple[tuple[Line, Line, Line], ...] | None" = None  # id, hosts, text
    git: "GitState | None" = None
