"""Messages with which the controller starts a run on its hosts."""

from ipexctl.common.message import Document, Message
from ipexctl.common.run_about import RunAbout


class RankOrder(Message):
    """How a rank is started."""

    rank: int
    local_rank: int
    cpus: "list[int]"
    node: "int | None"  # the NUMA node whose memory it uses
    env: "dict[str, str]"
    argv: "list[str]"


class HostOfRun(Message):
    """What the hub knows about a host of the run."""

    host: str
    label: str  # its name for mpirun
    prefix: str  # of its environment
    nic: str
    mpi_bin: str
    ranks: "list[int]"
    starter: "list[str]"  # the command that starts its ranks if there is no mpirun
    address: str
    groups: "list[str]" = []  # of the hostfile


class MpiNames(Message):
    """How an MPI starts its daemons on other hosts (remote/hub/mpi_launch.py)."""

    daemons: "list[str]"
    dropped: "list[str]"  # settings that hold for the first host alone
    own_names: bool


class HubOrder(Message):
    """What the first host is told about all hosts."""

    hosts: "list[HostOfRun]"
    mpirun: "list[str]"
    mpi: "MpiNames | None"
    timeout: "float | None"
    stall: float  # --stall
    stall_action: str
    grace: float  # seconds for ranks to end
    lives_on: bool  # the run goes on without the command that started it
    address: str  # where the other hosts reach the hub
    ports: "list[int] | None" = None  # first and last
    notify: str = ""  # a command, whose text may be secret
    has_keepers: bool = False  # which report how it ends
    shown: "Document | None" = None  # ShownPlan, for those who attach
    inputs: "Document" = {}  # RunInputs


class StartOrder(Message):
    """What a host is told when a run begins. `host` and `root` are set when it is connected."""

    run_id: str
    lease: float  # seconds of silence after which a host counts as lost
    about: RunAbout  # for those who list runs
    inputs: "Document"  # HostInputs
    env: "dict[str, str]"
    cwd: str
    ranks: "list[RankOrder]"
    checkpoints: "list[str]"  # patterns of --checkpoints
    machinefile: str
    store_port: int  # of the ranks' rendezvous
    secret: bool  # the environment of ranks has secrets
    hub: str  # the host whose supervisor decides
    data: "list[str]"  # folders that are in use
    modules: "dict[str, str]"  # what each rank's Python imports before the script: name -> text
    run: "HubOrder | None"  # on the first host
    restart_plan: "Document | None" = None  # RestartPlan or VoterPlan, for its keeper
    spare: bool = False
    checkpoint_gap: float = 0.0  # seconds, the longest between two files of a checkpoint so far
    keys: "dict[str, str]" = {}  # of the hosts' TLS
    returned: bool = False  # for a new keeper of a host that was lost
    woken: bool = False  # for the keeper of a queued run that waits again
    host: str = ""
    root: str = ""
