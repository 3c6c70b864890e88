"""The part of a run's plan that commands which attach need. The first host's journal keeps it."""

from ipexctl.common.message import Line, Message


class ShownHost(Message):
    """A host's part."""

    name: "Line"
    nic: "Line"
    threads: "int | None"  # of each rank
    quota: "float | None"  # CPUs that its control group allows
    env: "dict[Line, Line]"  # variables of its ranks that hold no secret
    # rank, local rank, its CPUs as "0-3,8", and the NUMA node whose memory it uses
    ranks: "tuple[tuple[int, int, Line, int | None], ...]"


class ShownPlan(Message):
    """The plan of an attempt. For keepers without the hosts, which differ between attempts."""

    argv: "tuple[Line, ...]"
    master: "tuple[Line, int]" = ("", 0)  # address and port
    hosts: "tuple[ShownHost, ...]" = ()
    mpi: "Line" = ""
    ddp: bool = False
    joins: bool = True
    trains: bool = True
    tuned: bool = False
    secret: "tuple[Line, ...]" = ()  # names of variables
    host_timeout: "float | None" = None
