"""Build environments under ROOT/envs from blobs alone, prove them, then make one `current`.

An environment is complete with its mark, which is written last (see env_marks.py): the leftovers
of a killed build are removed by the next one.
"""

import fcntl
import os
import queue
import re
import shutil
import stat
import zipfile

from ipexctl.common.files import open_atomic, read_json, rename_synced, replace_link, sync_disk
from ipexctl.common.install_answers import EnvChanged, EnvProof
from ipexctl.common.processes import process_ids
from ipexctl.remote import child_processes, root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.failure import Failure
from ipexctl.remote.heartbeat import Heartbeat
from ipexctl.remote.install import (
    env_drift,
    env_marks,
    env_proof,
    env_users,
    standalone_pythons,
    wheel_cache,
)
from ipexctl.remote.run_files import run_about, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator

    from ipexctl.remote.main import Call

    File = tuple[str, str, int]  # its name, sha256, bytes

BUILD_TIMEOUT = 1800
POLL = 0.05  # seconds between two looks for files that are on their way
# For uv's allocator (jemalloc), which otherwise returns pages to the kernel after each file:
# a quarter of the CPU time of unpacking torch.
ALLOCATOR = {"_RJEM_MALLOC_CONF": "thp:always"}


def op_build(
    call: "Call",
    root: str,
    key: str,
    python: str,
    wheels: "list[File]",
    uv: "tuple[str, int]",
    cpython: "tuple[str, int] | None",
    rebuild: str,
) -> EnvChanged:
    """Build an environment from blobs. `uv`, `cpython`: sha256 and bytes.

    uv's own wheel, the wheels and a Python that is sent along are blobs. They may still be on
    their way: what is here is unpacked meanwhile. Without `cpython` the environment is made with
    the host's own Python at `python`. `rebuild`: the build that is replaced, "" for none; then all
    wheels are unpacked, including those that an earlier build has unpacked.
    """
    root = root_folder.prepare_root(root)
    env = env_marks.env_folder(root, key)
    files = [(file, sha, size) for file, sha, size in wheels]
    tools = [("uv", *uv)]
    tools += [("a Python", *cpython)] if cpython else []
    uv_sha, carried = tools[0][1], [sha for _, sha, _ in tools[1:]]
    with Heartbeat(call), RootLock(call, root):
        built = env_marks.build_id(env)
        if built and built != rebuild:  # also True if another install built it meanwhile
            return EnvChanged(False)
        require_unused(env)
        arrivals = Arrivals(call, root)
        for batch in arrivals.receive_batches(tools):
            blobs.verify_blobs(root, [sha for _, sha, _ in batch])
        named = [(file, sha) for file, sha, _ in files]
        store = wheel_cache.WheelCache(root, uv_sha, named, bool(rebuild))
        try:
            uv_path = unpack_uv(root, uv_sha)
            if carried:
                python = standalone_pythons.unpacked_interpreter(call, root, carried[0])
            build_environment(arrivals, env, [uv_path, python], store, files, carried)
        except (Failure, OSError) as e:
            raise root_folder.explain_disk_failure(e, root, 0) from None
    return EnvChanged(True)


def op_prove(
    call: "Call",
    root: str,
    key: str,
    mpi: str,
    mpirun: "list[str]",
    modules: "list[tuple[str, str, str]]",
    requested: "list[tuple[str, str]]",
    env: "list[tuple[str, str]]",
) -> EnvProof:
    """Test a new environment; if it fails, the one that it has replaced is put back.

    `modules` (module, distribution, version) are compared with the lock and imported in
    order, torch first, then those of the distributions that are `requested`. The processes that
    `mpirun` (words; none: just one process) starts train a step and add up their numbers. `mpi` is
    "system" where that mpirun is the host's own.
    """
    root = root_folder.prepare_root(root)
    folder = env_marks.env_folder(root, key)
    variables = dict(clean_environ(folder), OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    variables = child_processes.with_variables(variables, env)
    try:
        proof = env_proof.prove_environment(call, folder, mpirun, modules, requested, variables)
    except Failure:
        with RootLock(call, root):
            put_back(folder)
        raise
    mark = dict(proof.document(), mpi=mpi, requested=requested)
    env_marks.write_mark(os.path.join(folder, env_marks.PROVED), mark)
    return proof


def op_switch(
    call: "Call", root: str, key: str, project: "env_users.Project | None" = None
) -> EnvChanged:
    """Make `current` lead to this environment."""
    root = root_folder.prepare_root(root)
    env = env_marks.env_folder(root, key)
    with RootLock(call, root):
        if (
            not os.path.exists(os.path.join(env, env_marks.OK))
            or env_marks.proved_with(env) is None
        ):
            raise Failure(
                "the environment %s is no longer usable" % key,
                "another command removed or rebuilt it",
                "run the same command again",
                slug="env-gone",
            )
        env_users.note_project(root, key, project)
        remove_env_path(replaced_env_folder(env))
        before = env_marks.current_env_key(root)
        if before == key:
            return EnvChanged(False)
        links = [os.path.join(root, name) for name in env_marks.LINKS]
        is_return = before and env_marks.current_env_key(root, "previous") == key
        if not (is_return and env_marks.exchange_paths(*links)):  # if possible, in one step
            if before:
                replace_link(root, "previous", os.path.join("envs", before))
            replace_link(root, "current", os.path.join("envs", key))
    return EnvChanged(True)


# --- what may be removed -------------------------------------------------------------------------


def require_unused(env: str) -> None:
    """Raise Failure if a process runs in the environment that is about to be replaced."""
    user = process_using(env)
    if user:
        what = "%s runs in %s, which would be rebuilt" % (user, env)
        hint = "ipexctl install --rebuild   # once it has ended"
        raise Failure(what, "", hint, slug="env-in-use")


def process_using(env: str) -> str:
    """Return the first process that uses the environment, "" if there is none."""
    mark = read_json(os.path.join(env, env_marks.OK)) or {}
    linked_env = mark.get("use")  # an existing environment to which this one links
    root = os.path.dirname(os.path.dirname(env))
    return next(users_of(root, [path for path in (env, linked_env) if path]), "")


def users_of(root: str, folders: "list[str]") -> "Iterator[str]":
    """Yield `run bert (20261122-122416-107233) of ann@desk`, or `process 12` if it belongs to no
    run, for each process that runs a program in one of the folders, or has mapped a file there, as
    the Python of an environment has."""
    paths = tuple(os.path.realpath(path) + os.sep for path in folders)
    for pid in sorted(process_ids()):
        try:
            with open("/proc/%d/cmdline" % pid, errors="replace") as file:
                program = file.read(4096).split("\0")[0]
            with open("/proc/%d/maps" % pid, errors="replace") as file:
                uses_folder = program.startswith(paths)
                uses_folder = uses_folder or any(path in line for line in file for path in paths)
        except OSError:
            continue
        if uses_folder and pid != os.getpid():
            run = run_folders.run_of(pid)
            yield run_about.describe_run(root, run) if run else "process %d" % pid


class RootLock:
    """The lock of a root: one builder at a time; the others wait and report that they do."""

    def __init__(self, call: "Call", root: str) -> None:
        self.call = call
        self.path = os.path.join(root_folder.make_subfolder(root, "envs"), ".lock")

    def __enter__(self) -> "RootLock":
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        blobs.wait_for_lock(self.call, self.fd)  # as long as the controller does
        return self

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)
        os.close(self.fd)


# --- building ------------------------------------------------------------------------------------


class NotBrought(Failure):
    """Files that were to come do not come."""


class Arrivals:
    """The files that come to one operation: {"all": true} says that all of them have been sent,
    {"abort": true} that no more will be."""

    def __init__(self, call: "Call", root: str) -> None:
        self.call, self.root = call, root
        self.complete = False

    def receive_batches(self, files: "list[File]") -> "Iterator[list[File]]":
        """Yield lists of (name, sha256, bytes): first those that are here, then those that came."""
        remaining = list(files)
        while remaining:
            is_last = self.complete
            arrived = [file for file in remaining if blobs.has_blob(self.root, file[1], file[2])]
            if arrived:
                remaining = [file for file in remaining if file not in arrived]
                yield arrived
            elif is_last:
                raise NotBrought(
                    "%s was received, but has disappeared" % remaining[0][0], slug="damaged"
                )
            else:
                self.wait()

    def wait(self) -> None:
        try:
            frame = self.call.inbox.get(timeout=POLL)
        except queue.Empty:
            return
        if frame is None or frame[0].get("abort"):
            raise NotBrought("the controller stopped sending", slug="transfer-stopped")
        self.complete = True


def unpack_uv(root: str, sha: str) -> str:
    """Unpack the uv program from its wheel; the folder is named after the wheel's sha256."""
    path = os.path.join(root_folder.make_subfolder(root, "tools", "uv-" + sha[:12]), "uv")
    if os.path.exists(path):
        return path
    try:
        with zipfile.ZipFile(blobs.path_of(root, sha)) as archive:
            source = archive.open(uv_member(archive.namelist()))
            with source, open_atomic(path, mode=0o700, sync=True) as target:
                shutil.copyfileobj(source, target)
    except (OSError, zipfile.BadZipFile) as e:
        raise Failure("cannot unpack uv", str(e), slug="unpack-failed") from None
    return path


def uv_member(names: "list[str]") -> str:
    members = [name for name in names if re.match(r"uv-[0-9.]+\.data/scripts/uv\Z", name)]
    if len(members) != 1:
        raise Failure("uv's wheel has no program in it", slug="wheel-unreadable")
    return members[0]


def build_environment(
    arrivals: "Arrivals",
    env: str,
    tools: "list[str]",
    store: "wheel_cache.WheelCache",
    files: "list[File]",
    carried: "list[str]",
) -> None:
    """Build in a separate folder, which takes the environment's place when it is complete: until
    then the old one is in use. uv gets no hashes: the caller has checked them, and uv takes longer
    for them than for unpacking."""
    call = arrivals.call
    uv, python = tools
    envs = os.path.dirname(env)
    remove_old_work(envs)
    work = os.path.join(envs, ".work-%d" % os.getpid())
    fresh = os.path.join(work, "env")

    def undo() -> None:
        """Remove the incomplete environment: the controller has gone."""
        for _ in range(3):  # the builder may still be writing
            remove_env_path(work)

    call.agent.at_end.append(undo)
    try:
        os.mkdir(work, 0o700)
        variables = dict(clean_environ(fresh), UV_CACHE_DIR=store.cache, TMPDIR=work, HOME=work)
        variables.update(ALLOCATOR)
        base = [uv, "--no-config", "--offline", "--color", "never", "--no-progress"]
        make = ["venv", "--quiet", "--no-project", "--relocatable", "--python", python, fresh]
        call.emit({"event": "step", "what": "venv"})
        child_processes.run_program(call, base + make, variables, BUILD_TIMEOUT)
        install = ["pip", "install", "--quiet", "--python", os.path.join(fresh, "bin", "python")]
        install += ["--no-index", "--no-deps", "--link-mode", "hardlink"]
        install += ["--find-links", store.make_empty_links()]
        call.emit({"event": "step", "what": "unpack"})
        for batch in arrivals.receive_batches(files):
            unpack_wheels(
                call, base + install, variables, store, [(file, sha) for file, sha, _ in batch]
            )
        make_runnable(os.path.join(fresh, "bin"))
        needed = [sha for _, sha, _ in files] + carried
        mark = {"wheels": [file for file, _, _ in files], "blobs": needed}  # type: dict[str, object]
        mark["dists"] = env_drift.hash_package_records(fresh)
        call.emit({"event": "step", "what": "sync"})
        sync_disk(fresh)
        store.keep()
        env_marks.write_mark(os.path.join(fresh, env_marks.OK), mark)
        put_in_place(fresh, env)
    except NotBrought:
        sync_disk(store.root)
        store.keep()
        raise
    except BaseException:
        store.drop()
        raise
    finally:
        remove_env_path(work)
        call.agent.at_end.remove(undo)


def replaced_env_folder(env: str) -> str:
    """Return the path of the replaced environment, until the new one is proved."""
    return os.path.join(os.path.dirname(env), ".old-" + os.path.basename(env))


def put_in_place(fresh: str, env: str) -> None:
    """Move the new environment to its final path, and keep the old one until the proof."""
    require_unused(env)
    remove_env_path(replaced_env_folder(env))
    if os.path.lexists(os.path.join(env, env_marks.OK)):
        if env_marks.exchange_paths(fresh, env):
            rename_synced(fresh, replaced_env_folder(env))
            return
        os.rename(env, replaced_env_folder(env))
    remove_env_path(env)
    rename_synced(fresh, env)


def put_back(env: str) -> None:
    """Use the replaced environment again, as the new one failed its proof."""
    old = replaced_env_folder(env)
    if os.path.isdir(old):
        remove_env_path(env)
        rename_synced(old, env)


def unpack_wheels(
    call: "Call",
    command: "list[str]",
    variables: "dict[str, str]",
    store: "wheel_cache.WheelCache",
    wheels: "list[wheel_cache.Wheel]",
) -> None:
    blobs.verify_blobs(store.root, [sha for _, sha in store.find_lacking(wheels)])
    store.begin(wheels)
    requirements = ["%s==%s" % tuple(name.split("-")[:2]) for name, _ in wheels]
    child_processes.run_program(call, command + requirements, variables, BUILD_TIMEOUT)
    store.note_unpacked(wheels)


def make_runnable(folder: str) -> None:
    """Set the x bit of scripts and programs in bin: wheels zipped again can lose it."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        if not stat.S_ISREG(mode) or mode & 0o100:
            continue
        with open(path, "rb") as file:
            head = file.read(4)
        if head[:2] == b"#!" or head == b"\x7fELF":
            os.chmod(path, stat.S_IMODE(mode) | 0o700)


def remove_old_work(folder: str) -> None:
    """Remove folders of killed builders: only the holder of the lock has such folders."""
    for name in os.listdir(folder):
        if name.startswith((".work-", ".old-")):
            remove_env_path(os.path.join(folder, name))


def remove_env_path(path: str) -> None:
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        # Its mark goes first, so that a removal cut short does not look complete.
        blobs.try_unlink(os.path.join(path, env_marks.OK))
        shutil.rmtree(path, ignore_errors=True)


# --- proving -------------------------------------------------------------------------------------


def clean_environ(env: str) -> "dict[str, str]":
    """Return an environment without the account's PYTHON*, PIP_*, UV_* and MPI settings."""
    keep = ("HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "TZ")
    variables = {name: os.environ[name] for name in keep if name in os.environ}
    variables["PATH"] = os.path.join(env, "bin") + ":/usr/local/bin:/usr/bin:/bin"
    variables["LC_ALL"] = "C.UTF-8"
    variables["UV_NO_CONFIG"] = "1"
    variables["UV_PYTHON_DOWNLOADS"] = "never"
    return variables
