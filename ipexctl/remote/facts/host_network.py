"""Read interfaces, addresses and names of this host, and test whether others can be reached."""

import os
import socket
import threading
import time

from ipexctl.common.tolerant_reads import names_in

_listeners = {}  # type: dict[int, list[socket.socket]]  # by the reported port

MASTER_PORT = 29500  # the default port of torchrun, accelerate and DeepSpeed


def op_listen(call):
    """Listen on a port of all addresses until op_close. The kernel accepts connections on its own.

    Also listen on a port next to MASTER_PORT, for which users open firewalls.
    """
    server = open_listener()
    port = server.getsockname()[1]
    _listeners[port] = [server]
    own = os.environ.get("SSH_CONNECTION", "").split()
    beside = None
    for step in range(8 if len(own) == 4 else 0):
        try:
            beside = open_listener(MASTER_PORT + 1 + (os.getpid() + step * 7) % 99, own[2])
            _listeners[port].append(beside)
            break
        except OSError:
            continue
    return {
        "port": port,
        "range_port": beside.getsockname()[1] if beside else None,
    }


def op_close(call, port):
    """{port} -> {}: close the listeners of one op_listen; a later one may have begun meanwhile."""
    for server in _listeners.pop(port, []):
        try:
            server.shutdown(socket.SHUT_RDWR)  # wakes a thread that accepts
        except OSError:
            pass
        server.close()
    return {}


def kept_listener(ports=None):
    """Return a listener that op_close closes. `ports`: the first and the last permitted port."""
    low, count = (ports[0], ports[1] - ports[0] + 1) if ports else (0, 1)
    for step in range(count):
        try:
            server = open_listener(low + (os.getpid() + step) % count if ports else 0)
            break
        except OSError:
            if step == count - 1:
                raise
    _listeners[server.getsockname()[1]] = [server]
    return server


def open_listener(port=0, address=""):
    """Listen on `address`, or on all addresses, both IPv4 and IPv6 if the host has both."""
    server = None
    try:
        if address and ":" not in address:
            raise OSError("an IPv4 address")
        server = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((address or "::", port))
    except OSError:
        if server:
            server.close()
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            server.bind((address or "0.0.0.0", port))
        except OSError:
            server.close()
            raise
    server.listen(128)
    return server


def op_connect(call, targets, timeout=2.0, large=()):
    """Try all targets [name, address, port] at once. Return [name, error or ""] for each.

    Also send large packets to the targets named in `large`: see packet_sizes.
    """
    end = time.monotonic() + timeout
    results, opened = connect_targets(targets, end, "no answer in %g s" % timeout)
    done = {"results": results}  # type: dict[str, object]
    large = {name: opened[name] for name in large if name in opened}
    if large:
        # imported late: install does not need it
        from ipexctl.remote.facts import packet_sizes

        done["large"] = packet_sizes.check_large_packets(large)
    for sock in opened.values():
        sock.close()
    return done


def connect_targets(targets, end, late):
    """Return ([[name, error or ""]], {name: socket} of those that connected)."""
    import errno
    import select

    poll = select.poll()
    waiting, opened = {}, {}
    results = []
    for name, address, port in targets:
        try:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            error = sock.connect_ex((address, port))
        except (OSError, OverflowError, TypeError) as e:
            results.append([name, str(e)])
            continue
        if error not in (0, errno.EINPROGRESS):  # no route, say: poll does not report it
            results.append([name, os.strerror(error)])
            sock.close()
            continue
        waiting[sock.fileno()] = (name, sock)
        poll.register(sock, select.POLLOUT)
    while waiting and time.monotonic() < end:
        for fd, _ in poll.poll(max(1, int((end - time.monotonic()) * 1000))):
            name, sock = waiting.pop(fd)
            poll.unregister(fd)
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            results.append([name, os.strerror(error) if error else ""])
            if error:
                sock.close()
            else:
                opened[name] = sock
    for name, sock in waiting.values():
        results.append([name, late])
        sock.close()
    return results, opened


class Lookup:
    """Resolve names in a thread: a resolver can be slow."""

    def __init__(self, names):
        self.names = names
        self.found = {}  # name -> addresses; [] if there are none, no entry without an answer
        self.thread = threading.Thread(target=self.run)
        self.thread.daemon = True
        self.thread.start()

    def run(self):
        for name in self.names:
            try:
                # bytes: a str would import the idna codec
                found = socket.getaddrinfo(name.encode(), None, 0, socket.SOCK_STREAM)
                self.found[name] = [i[4][0] for i in found]
            except socket.gaierror as e:
                if e.args[0] != socket.EAI_AGAIN:
                    self.found[name] = []
            except UnicodeError:  # no name at all
                self.found[name] = []
            except OSError:
                pass

    def wait(self, seconds):
        self.thread.join(seconds)


def own_names():
    return Lookup([os.uname().nodename, "localhost"])


def find_active_firewalls():
    """Return the firewalls that seem active; only a test connection shows what they permit."""
    found = []
    if os.path.exists("/run/firewalld.pid") or os.path.exists("/run/firewalld"):
        found.append("firewalld")
    try:
        with open("/etc/ufw/ufw.conf") as f:
            if "\nENABLED=yes" in "\n" + f.read(4096):
                found.append("ufw")
    except OSError:
        pass
    if os.path.exists("/etc/systemd/system/sysinit.target.wants/nftables.service"):
        found.append("nftables")
    if _legacy_iptables():
        found.append("iptables")
    return found


def _legacy_iptables():
    """Decide whether iptables' old kernel interface has a filter table: nft does not show it.

    Only root can read the names of tables; others see the kernel module, if it is one.
    """
    try:
        with open("/proc/net/ip_tables_names") as f:
            return "filter" in f.read().split()
    except PermissionError:
        return os.path.isdir("/sys/module/iptable_filter")
    except OSError:
        return False


def _master_port_busy():
    """Decide whether MASTER_PORT is in use, by binding it without listening."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((address, MASTER_PORT))
                return False
        except OSError as e:
            if e.errno == 98:  # EADDRINUSE
                return True
    return None


def read_network(read, fs, live):
    ssh = os.environ.get("SSH_CONNECTION", "").split()
    address, _, zone = (ssh[2] if live and len(ssh) == 4 else "").partition("%")
    routes = read(fs + "/proc/net/route")
    ports = read(fs + "/proc/sys/net/ipv4/ip_local_port_range").split()
    return {
        "hostname": os.uname().nodename,
        "ssh_address": address,
        "ssh_nic": zone,
        "nics": _nics(read) if live else [],
        "default_nic": _default_nic(routes),
        "routes": _routes(routes),
        "port_range": [int(n) for n in ports] or None,
        "master_port_busy": _master_port_busy() if live else None,
        "firewalls": find_active_firewalls() if live else [],
    }


def _routes(text):
    """Return [[interface, network]] of the IPv4 routes that are up."""
    found = []
    for line in text.splitlines()[1:257]:
        words = line.split()
        if len(words) >= 8 and int(words[3], 16) & 1:
            network = socket.inet_ntoa(bytes(bytearray.fromhex(words[1]))[::-1])
            found.append([words[0], "%s/%d" % (network, bin(int(words[7], 16)).count("1"))])
    return found


def _nics(read):
    """Return [[name, up, mtu, addresses, speed, duplex]] of this network namespace."""
    import fcntl
    import struct

    lines = read("/proc/net/dev").splitlines()[2:]
    names = [line.partition(":")[0].strip() for line in lines]
    addresses = _ipv4()
    for line in read("/proc/net/if_inet6").splitlines():
        words = line.split()
        if len(words) == 6 and words[3] != "20":  # link-local addresses are useless to a launcher
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
            own = addresses.get(name, [])
            found.append([name, up, struct.unpack("i", mtu)[0], own] + _own_link(name, read))
    return found


def _own_link(name, read):
    """Return the link of an interface, unless /sys shows another network namespace."""
    folder = "/sys/class/net/" + name
    try:
        same = str(socket.if_nametoindex(name)) == read(folder + "/ifindex").strip()
    except OSError:
        same = False
    return read_link_speed(folder, read) if same else [None, ""]


def read_link_speed(folder, read):
    """Return [Mbit/s or None, full or half or ""] of an interface, or of a bond or VLAN on one.

    The speed that veth and tun report means nothing.
    """
    names = names_in(folder)
    if "device" not in names and not any(n.startswith("lower_") for n in names):
        return [None, ""]
    text = read(folder + "/speed").strip()
    known = text.isdigit() and 0 < int(text) < 1 << 31  # -1, also as an unsigned number: unknown
    duplex = read(folder + "/duplex").strip()
    return [int(text) if known else None, duplex if duplex in ("full", "half") else ""]


def _ipv4():
    """Return all IPv4 addresses by interface, including secondary ones (SIOCGIFCONF)."""
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
            best.append((int(words[6]), words[0]))
    return min(best)[1] if best else ""
