"""What this host is: files and system calls only, no programs, nothing judged and nothing created.

Many hosts answer at once and may share few cores, so this reads as little as it can: the first
CPU's part of /proc/cpuinfo (a kernel writes that file one CPU at a time), then sysfs.
`fs` is the folder in front of /proc and /sys: tests put recorded machines there.
"""

import os
import socket
import sys
import threading
import time

CPUS = 8192  # more than any kernel has; a broken file can't make us count for ever
_kept = []  # type: list[socket.socket]  # listeners: they live as long as the agent


def op_facts(call, args):
    """Emits the clock first, so that the controller knows how old it is; then everything."""
    call.emit({"event": "clock", "now": time.time()})
    fs = args.get("fs", "/").rstrip("/")
    live = not fs
    names = _Lookup() if live else None
    home = os.path.expanduser("~")
    root = os.path.join(home, os.path.expanduser(args.get("root", "~/.ipexctl")))
    mounts = _mounts(fs)
    groups = _cgroup(fs, mounts)
    facts = {
        "host": _host(fs, home),
        "cpu": _cpu(fs, groups, live),
        "nodes": _nodes(fs),
        "mem": _mem(fs, groups, live),
        "disk": _disk(os.path.normpath(root), mounts),
        "pythons": _pythons(home) if live else [],
        "net": _net(fs, live),
    }
    if args.get("listen"):
        facts["port"] = op_listen(call, args)["port"]
    facts["net"]["hostname_addresses"] = names.wait(2.0) if names else []
    return facts


def op_listen(call, args):
    """A port on all addresses, until the agent ends. The kernel answers; nobody needs to accept."""
    try:
        server = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::", 0))
    except OSError:
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.bind(("0.0.0.0", 0))
    server.listen(128)
    _kept.append(server)
    return {"port": server.getsockname()[1]}


def op_connect(call, args):
    """Tries all targets [name, address, port] at once. Returns [name, error or ""] for each."""
    import select

    poll = select.poll()
    waiting = {}
    results = []
    for name, address, port in args["targets"]:
        try:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.connect_ex((address, port))
        except (OSError, OverflowError, TypeError) as e:
            results.append([name, str(e)])
            continue
        waiting[sock.fileno()] = (name, sock)
        poll.register(sock, select.POLLOUT)
    end = time.monotonic() + args.get("timeout", 2.0)
    while waiting and time.monotonic() < end:
        for fd, _ in poll.poll(max(1, int((end - time.monotonic()) * 1000))):
            name, sock = waiting.pop(fd)
            poll.unregister(fd)
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            results.append([name, os.strerror(error) if error else ""])
            sock.close()
    for name, sock in waiting.values():
        results.append([name, "no answer in %g s" % args.get("timeout", 2.0)])
        sock.close()
    return {"results": results}


# --- reading -------------------------------------------------------------------------------------


def _read(path, until=None):
    """The text of a file, "" where there is none; stops early once `until` was seen."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        data = b""
        while True:
            part = os.read(fd, 65536)
            data += part
            if not part or (until and until in data):
                return data.decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def _number(text):
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def _expand(text):
    """0-3,8 -> [0, 1, 2, 3, 8]"""
    found = []  # type: list[int]
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        low, high = _number(first), _number(last or first)
        if low is not None and high is not None:
            found.extend(range(low, min(high, low + CPUS) + 1))
    return found[:CPUS]


def _fields(text):
    """`name : value` lines, the first of each name."""
    fields = {}  # type: dict[str, str]
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


# --- processors ----------------------------------------------------------------------------------


def _cpu(fs, groups, live):
    info = fs + "/proc/cpuinfo"
    first = _fields(_read(info, until=b"\n\n").partition("\n\n")[0])
    cpus = _sysfs_cpus(fs + "/sys/devices/system/cpu")
    if not any(core is not None for _, core, _ in cpus):
        cpus = _cpuinfo_cpus(_read(info)) or cpus
    return {
        "arch": os.uname().machine if live else _recorded_arch(first),
        "vendor": first.get("vendor_id") or first.get("CPU implementer", ""),
        "model_name": first.get("model name") or first.get("Processor", ""),
        "family": first.get("cpu family") or first.get("CPU architecture"),
        "model": first.get("model") or first.get("CPU part"),
        "flags": first.get("flags") or first.get("Features", ""),
        "cpus": cpus,
        "affinity": sorted(os.sched_getaffinity(0)) if live else None,
        "cpuset": groups["cpuset"],
        "quota": groups["quota"],
    }


def _recorded_arch(first):
    return "aarch64" if "CPU implementer" in first else "x86_64"


def _sysfs_cpus(base):
    """[[cpu, lowest CPU of its core, socket]] for what is online."""
    found = []
    for cpu in _online(base):
        top = "%s/cpu%d/topology/" % (base, cpu)
        core = _lowest(top)
        if core is None:
            core = _number(_read(top + "core_id"))
        found.append([cpu, core, _number(_read(top + "physical_package_id"))])
    return found


def _online(base):
    text = _read(base + "/online")
    if text:
        return _expand(text)
    try:
        names = os.listdir(base)
    except OSError:
        return []
    cpus = sorted(int(n[3:]) for n in names if n.startswith("cpu") and n[3:].isdigit())
    return [c for c in cpus if os.path.isdir("%s/cpu%d/topology" % (base, c))]


def _lowest(top):
    """The lowest CPU of a core: unique on the host, where core_id repeats per socket and die."""
    text = _read(top + "thread_siblings_list").strip()
    if text:
        return _number(text.partition(",")[0].partition("-")[0])
    try:
        mask = int(_read(top + "thread_siblings").strip().replace(",", ""), 16)
    except ValueError:
        return None
    return (mask & -mask).bit_length() - 1 if mask else None


def _cpuinfo_cpus(text):
    """For kernels without topology in sysfs."""
    found = []
    cores = {}  # type: dict[object, int]
    for part in text.split("\n\n"):
        one = _fields(part)
        cpu, socket_id = _number(one.get("processor")), _number(one.get("physical id"))
        core = _number(one.get("core id"))
        if cpu is None:
            continue
        if core is not None:
            core = cores.setdefault((socket_id, core), cpu)
        found.append([cpu, core, socket_id])
    return found[:CPUS]


def _nodes(fs):
    """[[node, its CPUs, bytes in all, bytes free]]; a node may have memory and no CPU."""
    base = fs + "/sys/devices/system/node"
    try:
        names = [n for n in os.listdir(base) if n.startswith("node") and n[4:].isdigit()]
    except OSError:
        return []
    found = []
    for name in sorted(names, key=lambda n: int(n[4:])):
        where = base + "/" + name
        text = _read(where + "/cpulist")
        cpus = text.strip() if text else _from_mask(_read(where + "/cpumap"))
        mem = {}
        for line in _read(where + "/meminfo").splitlines():
            words = line.split()
            if len(words) >= 4:
                mem[words[2]] = _number(words[3])
        found.append([int(name[4:]), cpus, _kib(mem.get("MemTotal:")), _kib(mem.get("MemFree:"))])
    return found


def _from_mask(text):
    try:
        mask = int(text.strip().replace(",", ""), 16)
    except ValueError:
        return ""
    return ",".join(str(i) for i in range(mask.bit_length()) if mask >> i & 1)


# --- control groups ------------------------------------------------------------------------------


def _mounts(fs):
    """[(mount point, type, options)], later ones lie over earlier ones."""
    text = _read(fs + "/proc/self/mounts") or _read(fs + "/proc/mounts")
    words = (line.split(" ") for line in text.splitlines())
    return [(w[1].replace("\\040", " "), w[2], w[3].split(",")) for w in words if len(w) >= 4]


def _cgroup(fs, mounts):
    """The CPUs, the share of them and the memory that our control group leaves us."""
    paths = {}
    for line in _read(fs + "/proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for name in parts[1].split(","):
                paths[name] = parts[2]
    for name in ("", "cpuset"):
        paths.setdefault(name, _read(fs + "/proc/self/cpuset").strip() or "/")
    base = {}
    for point, kind, options in mounts:
        if kind == "cgroup2":
            base[""] = fs + point
        elif kind == "cpuset":
            base["cpuset"] = fs + point
        elif kind == "cgroup":
            for name in ("cpuset", "cpu", "memory"):
                if name in options:
                    base[name] = fs + point

    def lines(controller, *files):
        where = base.get(controller)
        return _upwards(where, paths.get(controller, "/"), files) if where else []

    cpuset = lines("", "cpuset.cpus.effective")
    cpuset += lines("cpuset", "cpuset.effective_cpus", "cpuset.cpus", "cpus")
    memory = lines("", "memory.max") + lines("memory", "memory.limit_in_bytes")
    limits = [n for n in map(_number, memory) if n is not None and n < 1 << 60]
    shares = [_share(text.split()) for text in lines("", "cpu.max")]
    shares += [_share([q, "100000"]) for q in lines("cpu", "cpu.cfs_quota_us")]
    return {
        "cpuset": cpuset[0] if cpuset else "",
        "quota": min([s for s in shares if s is not None] or [None]),
        "memory": min(limits or [None]),
    }


def _upwards(base, path, files):
    """What the first of `files` says in our group and in each one above it."""
    found = []
    parts = [p for p in path.split("/") if p and p != ".."]
    for depth in range(len(parts), -1, -1):
        where = "/".join([base] + parts[:depth])
        for name in files:
            text = _read(where + "/" + name).strip()
            if text:
                found.append(text)
                break
    return found


def _share(words):
    """["200000", "100000"] -> 2.0 CPUs; "max" and -1 mean no limit."""
    numbers = [_number(w) for w in words]
    if len(numbers) != 2 or not numbers[0] or not numbers[1] or numbers[0] < 0:
        return None
    return numbers[0] / float(numbers[1])


# --- memory and disk -----------------------------------------------------------------------------


def _kib(number):
    return None if number is None else number * 1024


def _mem(fs, groups, live):
    fields = _fields(_read(fs + "/proc/meminfo"))

    def of(name):
        return _kib(_number((fields.get(name) or "?").split()[0]))

    shm = _statvfs("/dev/shm") if live else None
    return {
        "total": of("MemTotal"),
        "available": of("MemAvailable"),
        "swap_total": of("SwapTotal"),
        "shm_total": shm.f_blocks * shm.f_frsize if shm else None,
        "shm_free": shm.f_bavail * shm.f_frsize if shm else None,
        "limit": groups["memory"],
    }


def _statvfs(path):
    try:
        return os.statvfs(path)
    except OSError:
        return None


def _disk(root, mounts):
    """About the folder where root is, or will be made."""
    there = root
    while not os.path.isdir(there) and there != "/":
        there = os.path.dirname(there)
    real = os.path.realpath(there)
    stat = _statvfs(there)
    kind = ""
    longest = -1
    for point, fstype, _ in mounts:
        inside = point == "/" or real == point or real.startswith(point + "/")
        if inside and len(point) >= longest:
            kind, longest = fstype, len(point)
    return {
        "root": root,
        "exists": there == root,
        "free": stat.f_bavail * stat.f_frsize if stat else None,
        "free_inodes": stat.f_favail if stat and stat.f_files else None,
        "filesystem": kind,
        "noexec": bool(stat.f_flag & os.ST_NOEXEC) if stat else None,
        "writable": os.access(there, os.W_OK | os.X_OK),
    }


# --- the system ----------------------------------------------------------------------------------


def _host(fs, home):
    uname = os.uname()
    release = {}
    for line in (_read("/etc/os-release") or _read("/usr/lib/os-release")).splitlines():
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
        "boot_id": _read(fs + "/proc/sys/kernel/random/boot_id").strip(),
    }


def _libc():
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        pass
    try:
        return "musl" if any(n.startswith("ld-musl") for n in os.listdir("/lib")) else ""
    except OSError:
        return ""


def _user():
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def _pythons(home):
    """[{path, version, venv}], each real file once; shims and wrappers are no interpreters."""
    folders = os.environ.get("PATH", "").split(":") + ["/usr/bin", "/usr/local/bin"]
    folders += [home + "/" + n + "/bin" for n in ("miniconda3", "miniforge3", "anaconda3")]
    for parent in (home + "/.pyenv/versions", home + "/.local/share/uv/python", "/opt"):
        folders += [parent + "/" + n + "/bin" for n in sorted(_names(parent))]
    own = os.path.realpath(sys.executable) if sys.executable else ""
    found = {}
    for folder in folders:
        for name in _names(folder) if folder.startswith("/") else []:
            if name != "python3" and not (name.startswith("python3.") and name[8:].isdigit()):
                continue
            path = folder + "/" + name
            real = os.path.realpath(path)
            if real not in found:
                found[real] = _python(path, real, own)
    return [p for p in found.values() if p]


def _names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _python(path, real, own):
    if real == own:
        version = list(sys.version_info[:3])
    elif not os.access(real, os.X_OK) or not _is_elf(real):
        return None
    else:
        version = _version(real)
    if not version:
        return None
    lib = "python%d.%d" % (version[0], version[1])
    prefix = os.path.dirname(os.path.dirname(real))
    homes = ["%s/%s/%s" % (prefix, part, lib) for part in ("lib", "lib64")]
    homes = [h for h in homes if os.path.isfile(h + "/os.py")]
    venv = None
    if homes:
        venv = any(os.path.isdir(h + "/ensurepip") for h in homes)
    return {"path": path, "version": version, "venv": venv}


def _is_elf(path):
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF"
    except OSError:
        return False


def _version(real):
    """From the names of the file and its folders; the patch number only where a folder tells it."""
    name = os.path.basename(real)
    minor = _number(name[8:]) if name.startswith("python3.") else None
    folder = os.path.basename(os.path.dirname(os.path.dirname(real)))
    parts = folder.replace("cpython-", "").partition("-")[0].split(".")
    told = [int(p) for p in parts if p.isdigit()]
    if len(parts) == len(told) == 3 and told[0] == 3 and minor in (None, told[1]):
        return told
    return None if minor is None else [3, minor]


# --- network -------------------------------------------------------------------------------------


class _Lookup:
    """What our own name resolves to, beside the other work: a resolver may take its time."""

    def __init__(self):
        self.found = []
        self.thread = threading.Thread(target=self.run)
        self.thread.daemon = True
        self.thread.start()

    def run(self):
        try:
            # bytes: a str would import the idna codec
            name = os.uname().nodename.encode()
            self.found = [i[4][0] for i in socket.getaddrinfo(name, None, 0, socket.SOCK_STREAM)]
        except (OSError, UnicodeError):
            pass

    def wait(self, seconds):
        self.thread.join(seconds)
        return list(self.found)


def _net(fs, live):
    ssh = os.environ.get("SSH_CONNECTION", "").split()
    return {
        "hostname": os.uname().nodename,
        "ssh_address": ssh[2] if live and len(ssh) == 4 else "",
        "nics": _nics() if live else [],
        "default_nic": _default_nic(_read(fs + "/proc/net/route")),
    }


def _nics():
    """[[name, up, mtu, addresses]] of our own network namespace (/sys may show another one's)."""
    import fcntl
    import struct

    lines = _read("/proc/net/dev").splitlines()[2:]
    names = [line.partition(":")[0].strip() for line in lines]
    addresses = _ipv4()
    for line in _read("/proc/net/if_inet6").splitlines():
        words = line.split()
        if len(words) == 6 and words[3] != "20":  # link-local addresses are of no use to a launcher
            text = socket.inet_ntop(socket.AF_INET6, bytes(bytearray.fromhex(words[0])))
            addresses.setdefault(words[5], []).append(text)
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for name in names:
            request = struct.pack("16s24x", name.encode())
            try:
                flags = fcntl.ioctl(sock, 0x8913, request)[16:18]  # SIOCGIFFLAGS
                mtu = fcntl.ioctl(sock, 0x8921, request)[16:20]  # SIOCGIFMTU
            except OSError:
                continue
            up = struct.unpack("H", flags)[0] & 0x41 == 0x41  # IFF_UP, IFF_RUNNING
            found.append([name, up, struct.unpack("i", mtu)[0], addresses.get(name, [])])
    return found


def _ipv4():
    """All IPv4 addresses by interface, further ones included (SIOCGIFCONF)."""
    import array
    import fcntl
    import struct

    space = array.array("B", bytes(64 * 1024))
    size = 40 if struct.calcsize("P") == 8 else 32
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            request = struct.pack("iP", len(space), space.buffer_info()[0])
            used = struct.unpack("iP", fcntl.ioctl(sock, 0x8912, request))[0]
        except OSError:
            return {}
    data = space.tobytes()
    found = {}  # type: dict[str, list[str]]
    for at in range(0, used, size):
        name = data[at : at + 16].partition(b"\0")[0].decode("utf-8", "replace")
        address = socket.inet_ntoa(data[at + 20 : at + 24])
        found.setdefault(name.partition(":")[0], []).append(address)
    return found


def _default_nic(text):
    best = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 8 and words[1] == words[7] == "00000000" and int(words[3], 16) & 1:
            best.append((_number(words[6]) or 0, words[0]))
    return min(best)[1] if best else ""
