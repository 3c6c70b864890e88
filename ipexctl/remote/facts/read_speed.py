"""Measure how fast this host computes and reaches others. Short, bounded, nothing is kept.

A child in its own process group computes; it ends at its deadline, or with the agent. The server
listens until the agent ends, and answers only clients that know the token.
"""

import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

from ipexctl.common.port_answers import PortOpened
from ipexctl.common.speed_answers import (
    HostSpeed,
    LinkMeasured,
    LinksMeasured,
    PacketsCounted,
    TorchLoaded,
)
from ipexctl.remote import child_processes, root_folder
from ipexctl.remote.connection import listeners
from ipexctl.remote.failure import Failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call


MARK = "ipexctl-bench:"
PINGS = 24
PING_SIZE = 64
CHUNK = 1 << 18
GUESTS = 4
PATIENCE = 2.0  # seconds to connect
PACED, PACED_SIZE = 1000, 500  # small packets one after the other, far below what links carry
PACE = 1e-3  # seconds between two of them
PACED_SECONDS = 2.0  # enough, on a slow host
RESULT = struct.Struct(">Qd")  # bytes, seconds
SILENT = HostSpeed("failed", "the child said nothing")

CHILD = r"""
import json, os, sys, time

def mounted():
    try:
        with open("/proc/self/mountinfo") as f:
            return any(line.split()[4] == "/proc/cpuinfo" for line in f)
    except (OSError, IndexError):
        return False

def best(work, seconds):
    work()
    least, end = 1e9, time.perf_counter() + seconds
    for turn in range(1000):
        began = time.perf_counter()
        work()
        now = time.perf_counter()
        least = min(least, now - began)
        if now > end and turn:
            return least

def sized(torch, dtype):
    size = 256
    while True:  # the largest product that takes some hundredths of a second
        a = torch.ones(size, size, dtype=dtype)
        b = torch.ones(size, size, dtype=dtype)
        took = best(lambda: torch.mm(a, b), 0)
        if took > 0.004 or size >= 8192:
            return a, b, 2e-9 * size ** 3, took
        size *= 2

def product(torch, dtype, seconds):
    a, b, work, took = sized(torch, dtype)
    return work / min(took, best(lambda: torch.mm(a, b), seconds))

def available():
    try:
        with open("/proc/meminfo") as f:
            kib = next(line.split()[1] for line in f if line.startswith("MemAvailable:"))
            return int(kib) << 10
    except (OSError, StopIteration):  # as on kernels before 3.14: what is free without the caches
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

def copied(torch, seconds):
    count = 64 << 20
    if available() < 32 * count:
        return None  # a smaller copy fits into caches: its speed is not to be compared
    a, b = torch.ones(count), torch.empty(count)
    return 8.0 * count / best(lambda: b.copy_(a), seconds) / 1e9

def steady(torch, seconds):  # on average, with the pauses that a control group's limit makes
    a, b, work, _ = sized(torch, torch.float32)
    told({"status": "ready"})
    sys.stdin.readline()
    began, turns, took = time.perf_counter(), 0, 0.0
    while took < seconds:
        torch.mm(a, b)
        turns += 1
        took = time.perf_counter() - began
    return work * turns / took

def told(out):
    sys.stdout.flush()
    print("\nMARK" + json.dumps(out), flush=True)

out = {"status": "no-torch", "cpuinfo_mounted": mounted()}
asked = json.loads(os.environ.get("IPEXCTL_SPEED", "null"))
if asked is None:
    told(out)
elif asked["cpus"]:
    os.sched_setaffinity(0, asked["cpus"])
try:
    import torch
except ImportError as e:
    if getattr(e, "name", "") != "torch":
        out.update(status="failed", why="import torch: %s" % e)
    told(out)
    os._exit(0)
threads = int(os.environ["OMP_NUM_THREADS"])
torch.set_num_threads(threads)
out.update(status="ok", torch=torch.__version__, threads=threads)
if asked is not None:
    with torch.inference_mode():
        told({"status": "ok", "fp32": steady(torch, asked["seconds"])})
    os._exit(0)
with torch.inference_mode():
    try:
        with torch.backends.mkldnn.verbose(1):  # oneDNN says on stdout what it has chosen
            torch.ones(64, 64).to_mkldnn()
    except Exception as e:
        out["why"] = "oneDNN tells nothing: %s" % e
    out["fp32"] = product(torch, torch.float32, 0.25)
    out["bf16"] = product(torch, torch.bfloat16, 0.25)
    out["copy"] = copied(torch, 0.15)
told(out)
os._exit(0)
""".replace("MARK", MARK)


def op_host(
    call: "Call",
    root: str = "~/.ipexctl",
    environment: str = "",
    python: str = "",
    threads: int = 1,
    timeout: float = 60,
) -> HostSpeed:
    """Return the child's results, and how far it came."""
    root = os.path.expanduser(root)
    if not python and os.path.isdir(root):
        place = os.path.join("envs", os.path.basename(environment)) if environment else "current"
        installed = os.path.join(root_folder.prepare_root(root), place, "bin", "python")
        python = installed if os.path.exists(installed) else ""
    command, env = [python or sys.executable, "-I", "-c", CHILD], _environment(threads)
    try:
        out = child_processes.run_program(call, command, env, timeout)
    except Failure as e:
        late = "in time" in e.what
        return HostSpeed("late" if late else "failed", (e.what + "\n" + e.why)[-2000:])
    return _result_of(out)


def op_speed(
    call: "Call", python: str, threads: int, cpus: "list[int]", seconds: float
) -> HostSpeed:
    """Return the speed of all threads together. The child begins on the message that follows
    TorchLoaded: on all hosts at the same time."""
    request = json.dumps({"cpus": cpus, "seconds": seconds})
    command, env = [python, "-I", "-c", CHILD], dict(_environment(threads), IPEXCTL_SPEED=request)
    process = child_processes.start_program(command, env, subprocess.DEVNULL, stdin=subprocess.PIPE)
    assert process.stdin
    with child_processes.ends_with(call.agent.at_end, process):
        result = _next_of(process)
        if result.status == "ready":
            call.emit(TorchLoaded().document())
            call.recv()
            process.stdin.write(b"\n")
            process.stdin.flush()
            result = _next_of(process)
    return result


def _next_of(process: "subprocess.Popen[bytes]") -> HostSpeed:
    assert process.stdout
    for line in process.stdout:
        if line.startswith(MARK.encode("ascii")):
            return HostSpeed.read(json.loads(line[len(MARK) :].decode("ascii")))
    return SILENT


def _environment(threads: int) -> "dict[str, str]":
    env = dict(os.environ)
    env["OMP_NUM_THREADS"] = env["MKL_NUM_THREADS"] = str(max(1, int(threads or 1)))
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return env


def _result_of(out: str) -> HostSpeed:
    result = SILENT
    for line in out.splitlines():
        if line.startswith(MARK):
            result = HostSpeed.read(json.loads(line[len(MARK) :]))
    for line in out.splitlines():
        if line.startswith(("onednn_verbose", "dnnl_verbose")) and ",cpu,isa:" in line:
            result = result.replace(onednn=line.partition(",isa:")[2].strip()[:200])
    return result


# --- between hosts -------------------------------------------------------------------------------


def op_serve(call: "Call", token: str, ports: "tuple[int, int] | None" = None) -> PortOpened:
    """Listen on one of the ports, None: on any, until listeners.op_close. Clients with the token
    may send small messages, or a bounded stream."""
    server = listeners.kept_listener(ports)
    slots = threading.Semaphore(GUESTS)
    thread = threading.Thread(target=_serve, args=(server, token.encode("ascii"), slots))
    thread.daemon = True
    thread.start()
    return PortOpened(server.getsockname()[1])


def _serve(server: "socket.socket", token: bytes, slots: "threading.Semaphore") -> None:
    while True:
        try:
            guest = server.accept()[0]
        except OSError:
            return
        if not slots.acquire(False):
            guest.close()
            continue
        thread = threading.Thread(target=_serve_guest, args=(guest, token, slots))
        thread.daemon = True
        thread.start()


def _serve_guest(guest: "socket.socket", token: bytes, slots: "threading.Semaphore") -> None:
    import hmac

    try:
        guest.settimeout(5.0)
        guest.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = _receive_exactly(guest, len(token) + 1)
        if not hmac.compare_digest(hello[:-1], token):
            return
        if hello[-1:] == b"p":
            for _ in range(PINGS):
                guest.sendall(_receive_exactly(guest, PING_SIZE))
        elif hello[-1:] == b"b":
            _receive_and_report(guest)
        elif hello[-1:] == b"l":
            while guest.recv(CHUNK):
                pass
    except (OSError, EOFError):
        pass
    finally:
        guest.close()
        slots.release()


def _receive_and_report(guest: "socket.socket") -> None:
    """Read for a while, then reply how much came in the best part of the time, without the start:
    pauses come from a busy host, or from TCP, more often than from the network."""
    head = _receive_exactly(guest, 16)
    limit, seconds = struct.unpack(">Qd", head)
    limit, seconds = min(limit, 1 << 28), min(seconds, 2.0)
    buffer = bytearray(1 << 20)
    began = time.monotonic()
    total, marks = 0, []  # type: int, list[tuple[float, int]]
    while total < limit and time.monotonic() - began < seconds:
        count = guest.recv_into(buffer)
        if not count:
            break
        total += count
        now = time.monotonic()
        if total >= limit // 8 or now - began >= seconds / 5:
            marks.append((now, total))
    overall = (total, max(time.monotonic() - began, 1e-6))
    guest.sendall(RESULT.pack(*_fastest_third(marks) or overall))
    guest.shutdown(socket.SHUT_WR)
    while guest.recv_into(buffer) and time.monotonic() - began < seconds + 3.0:
        pass  # closing with unread data would discard our reply


def _fastest_third(marks: "list[tuple[float, int]]") -> "tuple[int, float] | None":
    """Return (bytes, seconds) of the fastest third of these times; None if there are too few."""
    stretch = (marks[-1][0] - marks[0][0]) / 3 if marks else 0.0
    best, first = None, 0
    for now, total in marks if stretch > 0 else ():
        while now - marks[first + 1][0] >= stretch:
            first += 1
        count, elapsed = total - marks[first][1], now - marks[first][0]
        if elapsed >= stretch and (best is None or count / elapsed > best[0] / best[1]):
            best = (count, elapsed)
    return best


def op_link(
    call: "Call",
    token: str,
    targets: "list[tuple[str, str, int]]",
    size: int,
    seconds: float,
    patience: float = PATIENCE,
) -> LinksMeasured:
    """Measure the links to the targets (name, address, port), one after the other. `patience`:
    seconds to connect."""
    secret = token.encode("ascii")
    links = []
    for name, address, port in targets:
        latency = rate = None
        error = ""
        try:
            with _dial(address, port, secret + b"p", patience) as link:
                latency = _ping(link)
            with _dial(address, port, secret + b"b", patience) as link:
                rate = _push(link, size, seconds, 2.5 * patience)
        except EOFError:
            error = "the other end closed the connection"
        except (OSError, struct.error) as e:
            error = str(e) or type(e).__name__
        links.append(LinkMeasured(name, latency, rate, error))
    return LinksMeasured(links)


def op_losses(call: "Call", token: str, target: "tuple[str, int]") -> PacketsCounted:
    """Count the lost packets of a link that is hardly used, so that these are not the losses by
    which TCP finds out its speed."""
    address, port = target
    with _dial(address, port, token.encode("ascii") + b"l") as link:
        end = time.monotonic() + PACED_SECONDS
        for _ in range(PACED):
            link.sendall(b"." * PACED_SIZE)
            time.sleep(PACE)
            if time.monotonic() > end:
                break
        info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 220)
    if len(info) < 220:
        return PacketsCounted()  # before Linux 4.19
    # sent again; sent; arrived twice, so that it was not lost
    retransmitted, sent, twice = struct.unpack_from("I52xI56xI", info, 100)
    return PacketsCounted(sent, max(0, retransmitted - twice))


def _dial(address: str, port: int, hello: bytes, seconds: float = PATIENCE) -> "socket.socket":
    link = socket.create_connection((address, port), seconds)
    # unsent data is dropped when the socket closes, so that it delays nothing else
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.sendall(hello)
    return link


def _ping(link: "socket.socket") -> float:
    times = []
    message = b"." * PING_SIZE
    for _ in range(PINGS):
        began = time.perf_counter()
        link.sendall(message)
        _receive_exactly(link, PING_SIZE)
        times.append(time.perf_counter() - began)
    return min(times)  # the network's part: more than that is a host that is busy


def _push(link: "socket.socket", limit: int, seconds: float, late: float) -> float:
    """Send until the other end has enough; its clock counts, so buffers here do not matter."""
    link.sendall(struct.pack(">Qd", limit, seconds))
    link.setblocking(False)
    data = memoryview(bytes(CHUNK))
    end = time.monotonic() + seconds + late
    poll = select.poll()
    poll.register(link, select.POLLIN | select.POLLOUT)
    answer = b""
    while len(answer) < RESULT.size:
        events = poll.poll(max(1, int((end - time.monotonic()) * 1000)))
        if time.monotonic() > end:
            raise OSError("no answer in time")
        for _, event in events:
            if event & select.POLLIN:
                part = link.recv(RESULT.size)
                if not part:
                    raise EOFError
                answer += part
            elif event & (select.POLLERR | select.POLLHUP):
                raise OSError("the connection broke")
            elif event & select.POLLOUT:
                try:
                    link.send(data)
                except BlockingIOError:
                    pass
    count, seconds_there = RESULT.unpack(answer[: RESULT.size])  # type: int, float
    return count * 8 / seconds_there


def _receive_exactly(link: "socket.socket", size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data
