"""What a host answers about the environment that a run or a command would use."""

from ipexctl.common.message import AbsolutePath, AnyText, EnvKey, Line, Message, Port


class ProjectEnv(Message):
    """A project that uses environments. `id` distinguishes projects of one name."""

    id: "Line"
    name: "Line"
    by: "Line"  # its user and machine


class EnvUser(Message):
    """A project that asked for an environment. Times are the host's, in UTC."""

    project: ProjectEnv
    asked: "Line"
    used: "Line"  # when it last ran there


class BuiltEnvFound(Message):
    """An environment that ipexctl built, and who uses it."""

    key: "EnvKey"
    built: "Line"  # when; "" if unknown
    users: "list[EnvUser]"  # the one that used it last comes first; none if none was recorded


class HostMpi(Message):
    """An mpirun of the host itself."""

    bin: "AbsolutePath"  # its folder
    says: "AnyText"  # the start of what its --version prints, or why that failed


class HostMpiAnswer(Message):
    """The host's own MPI, for an environment that uses it."""

    system: "HostMpi | None"  # None: there is no mpirun


class EnvFound(Message):
    """What a run would use on a host."""

    prefix: "AbsolutePath"
    borrowed: bool  # nothing is installed: it is another Python's environment that has torch
    environment: "BuiltEnvFound | None"  # None: ipexctl did not build it
    mpirun: bool  # there is one in it
    packages: "dict[str, str]"  # their versions
    modules: "list[str] | None"  # all that can be imported; None: there may be others
    port: "Port"  # a free one
    keeper_port: "Port"  # another one for --restarts, 0 if none was asked for
    preload: "list[str]"  # OpenMP and malloc libraries in it
    allocators: "list[str]"  # malloc libraries of the host itself
    accelerators: "list[str]"  # devices that are not CPUs: /dev/nvidia0
    path: "AnyText"  # the account's PATH
    setvars: "dict[str, AnyText]"  # variables that its scripts set, such as those of oneCCL
    mpi: "Line"  # "system": it was proved with the host's own; "": with one in it, or without MPI
    system: "HostMpi | None"  # None: it uses no MPI of the host, or there is none
