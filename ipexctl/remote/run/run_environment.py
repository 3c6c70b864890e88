"""Find what a run would use on this host: the environment, its MPI, free ports."""

import errno
import glob
import os
import shutil
import socket
import zlib

from ipexctl.common.env_answers import (
    BuiltEnvFound,
    EnvFound,
    HostMpi,
    HostMpiAnswer,
)
from ipexctl.common.tolerant_reads import read_text
from ipexctl.remote import child_processes, root_folder
from ipexctl.remote.failure import Failure
from ipexctl.remote.install import env_marks, env_users, setvars_script

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable, Sequence

    from ipexctl.remote.install.env_users import Project
    from ipexctl.remote.main import Call

# where a host's own MPI may be, if it is not in PATH
MPIS = (
    "/usr/lib64/openmpi/bin",
    "/usr/lib64/mpich/bin",
    "/usr/local/openmpi/bin",
    "/opt/openmpi/bin",
    "/opt/mpich/bin",
    "/opt/intel/oneapi/mpi/latest/bin",
)
TIMEOUT = 20
LOOK = """
import importlib.util, sys
print(sys.prefix if importlib.util.find_spec("torch") else "")
"""
OWN_PTH = ("distutils-precedence.pth", "_virtualenv.pth")  # they add no folder
PORTS = range(20000, 30000)  # below the usual range of ports for outgoing connections


def op_find(
    call: "Call",
    root: str,
    run_id: str,
    environment: str = "",
    lock: str = "ipexctl.lock",
    project: "Project | None" = None,
    pythons: "Iterable[str]" = (),
    ports: "list[int] | None" = None,
    keeper: bool = False,
) -> EnvFound:
    """Find what this host would run with: an environment, and free ports.

    `environment`: its key, "" for the current one. `project`: to be recorded as its user.
    `lock`: the path of the lock with that key, for messages.
    """
    root, key = root_folder.check_existing_root(root), environment
    prefix = env_marks.locate_environment(root, key)
    installed = bool(prefix) and os.access(os.path.join(prefix, "bin", "python"), os.X_OK)
    if key and not installed:
        raise no_such_environment(root, key, lock)
    if not installed:
        prefix = prefix_with_torch(call, pythons)
    if not prefix:
        raise Failure(
            "no environment is installed in %s" % root,
            "and no Python in use here has torch" if pythons else "",
            "ipexctl install",
            slug="not-installed",
        )
    proved_with = env_marks.proved_with(prefix) or ""
    return EnvFound(
        prefix=prefix,
        borrowed=not installed,
        environment=describe_built(root, prefix, project) if installed else None,
        mpirun=os.access(os.path.join(prefix, "bin", "mpirun"), os.X_OK),
        packages=list_installed_packages(prefix),
        modules=list_importable_modules(prefix) if installed else None,
        port=free_port(run_id, ports),
        keeper_port=free_port(run_id + " keeper", ports) if keeper else 0,
        preload=find_preload_libraries(prefix),
        allocators=find_allocators(),
        accelerators=find_accelerators(),
        path=os.environ.get("PATH", os.defpath),
        setvars=setvars_script.read_variables(call, prefix),
        mpi=proved_with,
        system=find_host_mpi(call, prefix) if proved_with == "system" else None,
    )


def no_such_environment(root: str, key: str, lock: str) -> "Failure":
    current = env_marks.current_env_key(root)
    return Failure(
        "the environment %s of %s is not installed here" % (key, lock),
        "current is %s, which belongs to another project or lock" % current if current else "",
        "ipexctl install",
        slug="not-installed",
    )


def describe_built(root: str, prefix: str, project: "Project | None") -> "BuiltEnvFound | None":
    """Describe the environment, and note that the project runs in it; None if ipexctl did not build
    it."""
    key = env_marks.key_of(root, prefix)
    if not key:
        return None
    env_users.note_project_run(root, key, project)
    return BuiltEnvFound(key, env_users.built_on(prefix), env_users.list_users(root, key))


def prefix_with_torch(call: "Call", pythons: "Iterable[str]") -> str:
    """Return the prefix of the first of these interpreters that has torch, "" if none has."""
    for python in pythons:
        try:
            prefix = child_processes.run_program(
                call, [python, "-c", LOOK], dict(os.environ), TIMEOUT
            ).strip()
        except Failure:
            continue
        if prefix and os.access(os.path.join(prefix, "bin", "python3"), os.X_OK):
            return prefix
    return ""


def op_find_mpirun(call: "Call", prefix: str = "") -> HostMpiAnswer:
    """Find this host's own mpirun.

    An mpirun in the environment at `prefix` comes first, such as one that conda installed.
    """
    return HostMpiAnswer(find_host_mpi(call, prefix))


def find_host_mpi(call: "Call", prefix: str) -> "HostMpi | None":
    """Return the first mpirun in PATH or a usual folder; None if there is none."""
    path = os.environ.get("PATH", os.defpath)
    path = os.path.join(prefix, "bin") + os.pathsep + path if prefix else path
    mpirun = shutil.which("mpirun", path=os.pathsep.join([path] + list(MPIS)))
    if not mpirun:
        return None
    variables = {"PATH": "%s:%s" % (os.path.dirname(mpirun), path), "LC_ALL": "C.UTF-8"}
    variables["HOME"] = os.path.expanduser("~")
    try:
        version_text = child_processes.run_program(call, [mpirun, "--version"], variables, TIMEOUT)
    except Failure as e:
        version_text = "%s\n%s" % (e.what, e.why)
    return HostMpi(os.path.dirname(os.path.abspath(mpirun)), version_text[:2000])


def list_installed_packages(prefix: str) -> "dict[str, str]":
    versions = {}
    for path in glob.glob(os.path.join(prefix, "lib", "python3*", "site-packages", "*.dist-info")):
        name, _, version = os.path.basename(path)[: -len(".dist-info")].partition("-")
        versions[name.lower().replace("_", "-")] = version
    return versions


def list_importable_modules(prefix: str) -> "list[str] | None":
    """Return the top-level modules of the environment, None if there may be others."""
    folders = glob.glob(os.path.join(glob.escape(prefix), "lib", "python3*", "site-packages"))
    if len(folders) != 1 or os.path.islink(os.path.join(prefix, "lib")):
        return None  # of --use-env: another tool's environment, with its own rules
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            config = file.read().lower().replace(" ", "")
        names = os.listdir(folders[0])
    except OSError:
        return None
    elsewhere = any(name.endswith((".egg-link", ".egg")) or other_paths(name) for name in names)
    if "include-system-site-packages=true" in config or elsewhere:
        return None
    return sorted({name.partition(".")[0] for name in names})


def other_paths(name: str) -> bool:
    """Decide whether Python may add other folders to sys.path because of this file."""
    return name.endswith(".pth") and not name.endswith("-nspkg.pth") and name not in OWN_PTH


def find_preload_libraries(prefix: str) -> "list[str]":
    """Return OpenMP and malloc libraries of the environment: they work only if preloaded."""
    names = ("libiomp5.so", "libtcmalloc.so", "libjemalloc.so")
    paths = (os.path.join(prefix, "lib", name) for name in names)
    return [path for path in paths if os.path.isfile(path)]


def find_allocators() -> "list[str]":
    """Return the host's own malloc libraries: `ipexctl tune` tries those that all hosts have."""
    folders = ("/usr/lib64", "/usr/lib/*-linux-gnu")
    names = ("libtcmalloc*.so.4", "libjemalloc.so.2")
    path_lists = (glob.glob(os.path.join(folder, name)) for folder in folders for name in names)
    return sorted(path for matches in path_lists for path in matches)


def find_accelerators() -> "list[str]":
    """Return devices that a torch built for them would prefer to the CPU."""
    kinds = (
        "/dev/nvidia[0-9]*",
        "/dev/kfd",
        "/dev/dri/renderD*",
        "/dev/accel/accel*",
        "/dev/hl[0-9]*",
    )
    return sorted(path for kind in kinds for path in glob.glob(kind))


def free_port(seed: str, ports: "list[int] | None" = None) -> int:
    """Return a free port. Each run starts at another one, so that two runs take different ports.

    With `ports`, first and last, the two below it are free, too: a run needs three. Ports whose
    connections ended less than a minute ago can be used again, but are tried last.
    """
    low, high = outgoing_ports()
    usable: "Sequence[int]" = [p for p in PORTS if not low <= p <= high] or PORTS
    if ports:
        usable = range(ports[0] + 2, ports[1] + 1, 3)
    start = zlib.crc32(seed.encode("utf-8")) % len(usable)
    for reuse in (False, True) if ports else (False,):
        for i in range(len(usable)):
            port = usable[(start + i) % len(usable)]
            if all(is_free(p, reuse) for p in range(port - 2 if ports else port, port + 1)):
                return port
    port_range = ports or (usable[0], usable[-1])
    hint = "use another --ports range, or stop the programs that use it (ss -tlnp)"
    raise Failure(
        "no free port between %d and %d" % tuple(port_range),
        hint=hint if ports else "",
        slug="no-free-port",
    )


def outgoing_ports() -> "tuple[int, int]":
    try:
        low, high = map(int, read_text("/proc/sys/net/ipv4/ip_local_port_range").split())
        return low, high
    except ValueError:
        return 32768, 60999


def is_free(port: int, reuse: bool = False) -> bool:
    """Return whether a port can be bound, over IPv4 and IPv6; `reuse`: even if just closed."""
    for family, address in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # no IPv6 here
        try:
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if reuse:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            if reuse:
                sock.listen(1)  # fails if another process listens, while bind may succeed
        except OSError as e:
            if e.errno == errno.EADDRINUSE:
                return False
        finally:
            sock.close()
    return True
