"""Interfaces, addresses and names of this host, and whether others can be reached."""

import os
import socket
import threading
import time

_kept = []  # type: list[socket.socket]  # listeners: they live as long as the agent


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
    import errno
    import select

    poll = select.poll()
    waiting = {}
    results = []
    for name, address, port in args["targets"]:
        try:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            error = sock.connect_ex((address, port))
        except (OSError, OverflowError, TypeError) as e:
            results.append([name, str(e)])
            continue
        if error not in (0, errno.EINPROGRESS):  # no route: known at once, and not told again
            results.append([name, os.strerror(error)])
            sock.close()
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


class Lookup:
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


def net(read, fs, live):
    ssh = os.environ.get("SSH_CONNECTION", "").split()
    return {
        "hostname": os.uname().nodename,
        "ssh_address": ssh[2] if live and len(ssh) == 4 else "",
        "nics": _nics(read) if live else [],
        "default_nic": _default_nic(read(fs + "/proc/net/route")),
    }


def _nics(read):
    """[[name, up, mtu, addresses]] of our own network namespace (/sys may show another one's)."""
    import fcntl
    import struct

    lines = read("/proc/net/dev").splitlines()[2:]
    names = [line.partition(":")[0].strip() for line in lines]
    addresses = _ipv4()
    for line in read("/proc/net/if_inet6").splitlines():
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
            best.append((int(words[6]), words[0]))
    return min(best)[1] if best else ""
