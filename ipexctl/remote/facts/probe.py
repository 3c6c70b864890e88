"""Probe this host by files and system calls only: no programs, nothing judged, nothing created.

Many hosts answer at once and may share few cores, so each part does as little as it can.
`fs` is the folder in front of /proc and /sys: tests put recorded machines there.
"""

import os
import sys
import time

from ipexctl.common.tolerant_reads import names_in, read_text

_NEEDED = ("_bz2", "_sqlite3", "_ssl")  # by torch, datasets and pip; built where headers were
# machines/agent_start.py looks in the same folders for the first Python
_CONDA = ("miniconda3", "miniforge3", "anaconda3", "mambaforge")


def op_facts(call, root="~/.ipexctl", environment="", fs="/", load=None, dns=False, listen=False):
    """Emit the clock first, so that the controller knows its age; return everything else."""
    call.emit({"event": "clock", "now": time.time()})
    # imported late: the clock does not wait until these are compiled
    from ipexctl.remote.facts import cpus_and_memory, host_load, host_network

    fs = fs.rstrip("/")
    live = not fs
    load = host_load.begin_load_sample(read_text, fs, load)
    names = host_network.own_names() if live else None
    servers = []
    if live and dns:
        # imported late: only doctor asks for it
        from ipexctl.remote.facts import name_servers

        servers = name_servers.query_name_servers(read_text)
    home = os.path.expanduser("~")
    root = os.path.join(home, os.path.expanduser(root))
    mounts = cpus_and_memory.read_mounts(fs)
    groups = cpus_and_memory.read_cgroup(fs, mounts)
    nodes, contradict = cpus_and_memory.read_numa_nodes(fs)
    cpu = cpus_and_memory.read_cpu(fs, groups, live, nodes)
    facts = {
        "host": _host(read_text, fs, home),
        "cpu": cpu,
        "nodes": nodes,
        "nodes_contradict": contradict,
        "mem": cpus_and_memory.read_memory(fs, groups, live),
        "disk": _root_disk(cpus_and_memory.statvfs_or_none, os.path.normpath(root), mounts),
        "home_disk": _disk(cpus_and_memory.statvfs_or_none, home, mounts),
        "tmp": _disk(cpus_and_memory.statvfs_or_none, os.environ.get("TMPDIR") or "/tmp", mounts),
        "pythons": _pythons(home) if live else [],
        "net": host_network.read_network(read_text, fs, live),
    }
    # imported late: names are being resolved meanwhile
    from ipexctl.remote.facts import machine_state

    facts["condition"] = machine_state.read_state(read_text, fs, groups, cpu["cpus"])
    if live:
        from ipexctl.remote.facts import installed_software

        facts["software"] = installed_software.read_software(
            home, os.path.normpath(root), environment
        )
    facts["condition"]["load"] = host_load.finish_load_sample(read_text, fs, load)
    if live:
        from ipexctl.remote.facts import other_runs

        facts["condition"]["load"]["runs"] = other_runs.find_other_runs(root)
    if listen:
        ports = host_network.op_listen(call)
        facts["port"], facts["net"]["range_port"] = ports["port"], ports["range_port"]
    if servers:
        facts["net"]["name_servers"] = name_servers.collect_dns_answers(servers)
    facts["net"].update(_own_names(names) if names else {"hostname_addresses": []})
    return facts


def _own_names(names):
    names.wait(2.0)
    own, localhost = (names.found.get(name) for name in names.names)
    found = {
        "hostname_addresses": own or [],
        "hostname_resolves": None if own is None else bool(own),
        "resolver_silent": own is None,
    }
    if localhost is not None:
        found["localhost"] = localhost
    return found


def _disk(statvfs, root, mounts):
    """Describe the file system of the folder where the root is, or will be created."""
    there = root
    while not os.path.isdir(there) and there != "/":
        there = os.path.dirname(there)
    real = os.path.realpath(there)
    stat = statvfs(there)
    best = ("", "", [], "")  # type: tuple[str, str, list[str], str]
    for mount in mounts:
        point = mount[0]
        inside = point == "/" or real == point or real.startswith(point + "/")
        if inside and len(point) >= len(best[0]):
            best = mount
    return {
        "root": root,
        "real": os.path.realpath(root),
        "there": there == root,
        "free": stat.f_bavail * stat.f_frsize if stat else None,
        "free_inodes": stat.f_favail if stat and stat.f_files else None,
        "total": stat.f_blocks * stat.f_frsize if stat else None,
        "filesystem": best[1],
        "source": best[3],
        "point": best[0],
        "quota": any(o.endswith("quota") and not o.startswith("no") for o in best[2]),
        "noexec": bool(stat.f_flag & os.ST_NOEXEC) if stat else None,
        "read_only": bool(stat.f_flag & os.ST_RDONLY) if stat else None,
        "writable": os.access(there, os.W_OK | os.X_OK),
        "owner": _owner(there),
    }


def _root_disk(statvfs, root, mounts):
    """Describe the root folder, a part of which a command run as root may have made."""
    found = _disk(statvfs, root, mounts)
    parts = os.listdir(root) if found["there"] and os.access(root, os.R_OK) else []
    for path in sorted(os.path.join(root, name) for name in parts):
        ours = os.path.isdir(path) and not os.path.islink(path)  # its target may be shared
        if ours and not os.access(path, os.W_OK | os.X_OK):
            return dict(found, writable=False, owner=_owner(path))
    return found


def _owner(path):
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


# --- the system ----------------------------------------------------------------------------------


def _host(read, fs, home):
    uname = os.uname()
    release = {}
    for line in (read("/etc/os-release") or read("/usr/lib/os-release")).splitlines():
        name, _, value = line.partition("=")
        release[name] = value.strip().strip("\"'")
    return {
        "kernel": uname.sysname + " " + uname.release,
        "os_name": release.get("PRETTY_NAME") or release.get("NAME", ""),
        "os_ids": (release.get("ID", "") + " " + release.get("ID_LIKE", "")).split(),
        "libc": _libc(),
        "user": _user(),
        "uid": os.getuid(),
        "home": home,
        "boot_id": read(fs + "/proc/sys/kernel/random/boot_id").strip(),
    }


def _libc():
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        pass
    return "musl" if any(n.startswith("ld-musl") for n in names_in("/lib")) else ""


def _user():
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def _pythons(home):
    """Return [{path, version}], each real file once; shims and wrapper scripts do not count.

    The interpreter that runs this is always included: a wrapper may have started it.
    """
    folders = os.environ.get("PATH", "").split(":") + ["/usr/bin", "/usr/local/bin"]
    folders += [home + "/" + n + "/bin" for n in _CONDA]
    for parent in (home + "/.pyenv/versions", home + "/.local/share/uv/python", "/opt"):
        folders += [parent + "/" + n + "/bin" for n in sorted(names_in(parent))]
    own = os.path.realpath(sys.executable) if sys.executable else ""
    found = {}
    listed = set()  # /bin is often a link to /usr/bin, and both have thousands of names
    for folder in folders:
        where = os.path.realpath(folder)
        if where in listed or not folder.startswith("/"):
            continue
        listed.add(where)
        for name in names_in(folder):
            if name != "python3" and not (name.startswith("python3.") and name[8:].isdigit()):
                continue
            path = folder + "/" + name
            real = os.path.realpath(path)
            if real not in found:
                found[real] = _python(path, real, own)
    if own and not found.get(own):
        found[own] = _python(sys.executable, own, own)
    return [p for p in found.values() if p]


def _python(path, real, own):
    if real == own:
        version = list(sys.version_info[:3])
    elif not os.access(real, os.X_OK) or not _is_elf(real):
        return None
    else:
        version = _version(real)
    if not version:
        return None
    return {"path": path, "version": version, "lacks": _missing_modules(real, version)}


def _missing_modules(real, version):
    """Return the modules of _NEEDED that were not built; [] if they may be compiled in."""
    for lib in ("lib", "lib64"):
        place = (os.path.dirname(os.path.dirname(real)), lib, version[0], version[1])
        names = names_in("%s/%s/python%d.%d/lib-dynload" % place)
        there = {name.partition(".")[0] for name in names}
        if "_json" in there:
            return [name for name in _NEEDED if name not in there]
    return []


def _is_elf(path):
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF"
    except OSError:
        return False


def _version(real):
    """Read the version from the names of the file and its folders; else [3, minor]."""
    name = os.path.basename(real)
    minor = int(name[8:]) if name.startswith("python3.") and name[8:].isdigit() else None
    folder = os.path.basename(os.path.dirname(os.path.dirname(real)))
    parts = folder.replace("cpython-", "").partition("-")[0].split(".")
    told = [int(p) for p in parts if p.isdigit()]
    if len(parts) == len(told) == 3 and told[0] == 3 and minor in (None, told[1]):
        return told
    return None if minor is None else [3, minor]
