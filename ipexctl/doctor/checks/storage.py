"""The folders a run writes to: ipexctl's root, the home, TMPDIR."""

from __future__ import annotations

from ipexctl.base.sizes import GIB, MIB, binary_size
from ipexctl.common.root_paths import PATH_HINT, PATH_WHY, path_problem
from ipexctl.doctor.checks.registry import Evidence, cluster_check, host_check
from ipexctl.doctor.report.cluster import CheckedHosts, group_hosts, hosts_by_value
from ipexctl.doctor.report.finding import Fix, Severity, Shell, command, do, scripted_sudo, sudo
from ipexctl.facts.facts import Facts
from ipexctl.facts.storage_facts import DiskFacts

_ELSEWHERE = do("use a folder on another disk: --root /path")
_READ_ONLY = "mounted read-only"
_NEVER_WRITABLE = ("squashfs", "erofs", "iso9660", "cramfs", "romfs", "udf")


def writable_again(facts: Facts, disk: DiskFacts | None = None) -> Fix:
    """Return how to make a read-only file system writable; an empty fix if that is impossible."""
    disk = disk or facts.disk
    if disk.filesystem in _NEVER_WRITABLE:
        return Fix()
    if facts.condition.system.in_container:
        return do("start the container without --read-only, or with a volume or --tmpfs there")
    return do(
        sudo("mount -o remount,rw", disk.point or "MOUNTPOINT"),
        "   (if a disk error made it read-only, check first: ",
        sudo("dmesg -T --level=err,warn"),
        ")",
    )


@host_check(
    "DISK-001",
    title="ipexctl's folder is not writable",
    severity=Severity.FAIL,
    seen="the root folder, a folder in it, or the folder to create it in, is not writable",
    why="Environments, code and logs of runs live there.",
    fix=_ELSEWHERE,
)
def disk_not_writable(facts: Facts) -> Evidence | None:
    if facts.disk.writable is not False:
        return None
    if facts.disk.read_only:
        return Evidence(
            f"{_describe_root(facts)}: {_READ_ONLY}", fix=_ELSEWHERE | writable_again(facts)
        )
    return Evidence(
        f"{_describe_root(facts)}: no permission for {facts.user or 'this user'}",
        fix=_own_folder(facts, facts.disk) | _ELSEWHERE,
    )


def _own_folder(facts: Facts, disk: DiskFacts) -> Fix:
    """Return how the user gets write permission; an empty fix if the folder is another user's."""
    user = facts.user
    if not user or disk.owner not in (None, 0, facts.uid):
        return Fix()
    if disk.there is False:
        return do(scripted_sudo("install -d -m 700 -o", user, disk.root))
    if disk.owner == facts.uid:
        return do(command("chmod", *["-R"] * (disk is facts.disk), "u+rwX", disk.root))
    return do(scripted_sudo("chown", *["-R"] * (disk is facts.disk), f"{user}:", disk.root))


@host_check(
    "DISK-002",
    title="ipexctl's folder is on a file system without exec",
    severity=Severity.FAIL,
    seen="the root folder is on a file system mounted noexec",
    why="Libraries and programs of the environment cannot be loaded from it.",
    fix=_ELSEWHERE,
)
def disk_noexec(facts: Facts) -> Evidence | None:
    return Evidence(f"{_describe_root(facts)}: mounted noexec") if facts.disk.noexec else None


DISK_FAIL = 1 * GIB
DISK_WARN = 4 * GIB  # the CPU stack, its wheels, and a second version beside it


@host_check(
    "DISK-003",
    title="low disk space",
    severity=(Severity.WARN, Severity.FAIL),
    seen="less than 4 GiB (fail: 1 GiB) free where the root folder is",
    why="The CPU stack needs about 2 GiB, plus space for checkpoints and logs.",
)
def disk_space(facts: Facts) -> Evidence | None:
    free = facts.disk.free
    if free is None or free >= DISK_WARN or facts.disk.read_only:
        return None
    show = command("df -h", facts.disk.root)
    return Evidence(
        f"{_describe_root(facts)}: {binary_size(free)} free",
        fix=do("free some space, or use another disk: --root /path   (", show, ")"),
        severity=Severity.FAIL if free < DISK_FAIL else Severity.WARN,
    )


INODES = 40_000  # files of the CPU stack


@host_check(
    "DISK-004",
    title="the file system is low on inodes",
    severity=Severity.FAIL,
    seen=f"fewer than {INODES:,} inodes free where the root folder is",
    why=f"The stack has about {INODES:,} files, and each needs an inode.",
    fix=_ELSEWHERE,
)
def disk_inodes(facts: Facts) -> Evidence | None:
    free = facts.disk.free_inodes
    if free is None or free >= INODES or facts.disk.read_only:
        return None
    return Evidence(f"{_describe_root(facts)}: {free} inodes free")


@host_check(
    "DISK-005",
    title="ipexctl's folder is on a network file system",
    severity=Severity.NOTE,
    seen="the root folder is on NFS, Lustre, GPFS, CephFS, CIFS, ...",
    why="Every rank reads some 10,000 small files when it imports torch: from a file server, "
    "with all ranks at once, this takes minutes; from a local disk, seconds.",
    fix="use a local disk: --root /path",
)
def disk_network(facts: Facts) -> Evidence | None:
    if not network_fs(facts.disk):
        return None
    return Evidence(f"{_describe_root(facts)} from {facts.disk.source or 'a server'}")


@host_check(
    "DISK-006",
    title="ipexctl's folder is in memory",
    severity=Severity.NOTE,
    seen="the root folder is on tmpfs or ramfs",
    why="The environment uses 2 GiB of memory that the ranks could use, and is lost on reboot.",
    fix="use a folder on a disk: --root /path",
)
def disk_memory(facts: Facts) -> Evidence | None:
    return (
        Evidence(_describe_root(facts))
        if facts.disk.filesystem in ("tmpfs", "ramfs", "rootfs")
        else None
    )


@host_check(
    "DISK-007",
    title="ipexctl's folder is in the container's own layer",
    severity=Severity.NOTE,
    seen="the root folder is on an overlay file system",
    why="It is lost when the container is removed, and must then be installed again.",
    fix="use a folder on a volume, --root /path/to/a/volume, or mount one there",
)
def disk_overlay(facts: Facts) -> Evidence | None:
    return Evidence(_describe_root(facts)) if facts.disk.filesystem in ("overlay", "aufs") else None


@host_check(
    "DISK-009",
    title="ipexctl's folder has a name that MPI cannot use",
    severity=Severity.FAIL,
    seen="the path of the root folder contains a space, or a character other than letters, digits "
    "and `/._-+@,=~`; `install` and `run` refuse it",
    why=f"{PATH_WHY}.",
    fix=PATH_HINT,
)
def disk_path(facts: Facts) -> Evidence | None:
    problem = path_problem(facts.disk.root, facts.disk.real)
    return Evidence(problem) if problem else None


@host_check(
    "TMP-001",
    title="no writable folder for temporary files",
    severity=Severity.FAIL,
    seen="TMPDIR (or /tmp) is missing or not writable",
    why="MPI, torch and pip create files there, and fail at once if they cannot.",
)
def tmp_not_writable(facts: Facts) -> Evidence | None:
    tmp = facts.tmp
    if tmp is None or (tmp.writable is not False and tmp.there is not False):
        return None
    elsewhere = do(
        command("export TMPDIR=/a/folder/you/may/write"),
        "   in ~/.bashrc, before it returns for non-interactive shells",
    )
    if tmp.read_only:
        text = f"{_READ_ONLY}" if tmp.there is not False else f"not there, and {_READ_ONLY}"
        return Evidence(f"{tmp.root}: {text}", fix=elsewhere | writable_again(facts, tmp))
    if tmp.there is False:
        make = command("mkdir -p", tmp.root) if tmp.writable else sudo("mkdir -p -m 1777", tmp.root)
        return Evidence(f"{tmp.root}: not there", fix=do(make) | elsewhere)
    if tmp.root != "/tmp":
        return Evidence(f"{tmp.root}: no permission", fix=elsewhere)
    return Evidence(f"{tmp.root}: no permission", fix=elsewhere | do(sudo("chmod 1777 /tmp")))


TMP_FREE = 512 * MIB


@host_check(
    "TMP-002",
    title="little space for temporary files",
    severity=Severity.WARN,
    seen="less than 512 MiB free in TMPDIR, or /tmp",
    why="torch.compile, pip and MPI put files there: No space left on device.",
)
def tmp_full(facts: Facts) -> Evidence | None:
    tmp = facts.tmp
    if tmp is None or tmp.free is None or tmp.free >= TMP_FREE or tmp.read_only:
        return None
    return Evidence(
        f"{tmp.root}: {binary_size(tmp.free)} free",
        fix=do(command("ls -l", tmp.root), "   and remove your own files, or set TMPDIR"),
    )


@host_check(
    "TMP-003",
    title="the folder for temporary files is mounted noexec",
    severity=Severity.NOTE,
    seen="TMPDIR, or /tmp, is mounted noexec",
    why="torch.compile builds libraries in /tmp/torchinductor_USER and loads them from there: "
    "failed to map segment from shared object. Scripts without torch.compile work.",
    fix=Shell("export TORCHINDUCTOR_CACHE_DIR=$HOME/.cache/torchinductor"),
)
def tmp_noexec(facts: Facts) -> Evidence | None:
    return Evidence(f"{facts.tmp.root}: mounted noexec") if facts.tmp and facts.tmp.noexec else None


@host_check(
    "HOME-001",
    title="the home folder is not writable",
    severity=Severity.WARN,
    seen="the home folder is missing or not writable",
    why="torch, Hugging Face and matplotlib keep caches there; some programs fail if they "
    "cannot. ipexctl itself needs only its root folder.",
)
def home_not_writable(facts: Facts) -> Evidence | None:
    home = facts.home_disk
    if home is None or (home.writable is not False and home.there is not False):
        return None
    if home.read_only:
        caches = command("export XDG_CACHE_HOME=/a/folder HF_HOME=/a/folder/huggingface")
        return Evidence(
            f"{home.root}: {_READ_ONLY}",
            fix=do("put the caches elsewhere: ", caches) | writable_again(facts, home),
        )
    return Evidence(
        f"{home.root}: {'not there' if home.there is False else 'no permission'}",
        fix=_own_folder(facts, home) or do(sudo("chown", facts.user or "USER", home.root)),
    )


@cluster_check(
    "HOME-003",
    title="some hosts share their homes, others do not",
    severity=Severity.WARN,
    seen="the home is on a file server on some hosts and local on others",
    why="Data, scripts and caches in your home folder exist on some of the hosts only.",
    fix="put data where all hosts have it; `ipexctl run` sends the script's folder itself",
)
def mixed_homes(cluster: CheckedHosts) -> Evidence | None:
    examined = [facts for facts in cluster.hosts if facts.home_disk and facts.home_disk.filesystem]
    servers = group_hosts(examined, lambda facts: _file_server(facts.home_disk) or "a local disk")
    return Evidence(hosts_by_value(servers)) if len(servers) > 1 else None


_NETWORK = (
    "nfs",
    "lustre",
    "gpfs",
    "ceph",
    "cifs",
    "smb",
    "beegfs",
    "fuse.sshfs",
    "9p",
    "afs",
    "pvfs",
)


def network_fs(disk: DiskFacts) -> bool:
    return disk.filesystem.startswith(_NETWORK)


def _file_server(disk: DiskFacts | None) -> str:
    """Return the source of a network file system as server:/path, "" for a local disk."""
    return disk.source if disk and network_fs(disk) else ""


def _describe_root(facts: Facts) -> str:
    disk = facts.disk
    return f"{disk.root} ({disk.filesystem})" if disk.filesystem else disk.root
