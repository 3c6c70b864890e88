"""The program that mpirun starts for every rank and instead of ssh, and the final sweep.

As a program: asks the supervisor on this host (Unix socket, folder 0700) for its orders, starts the
user's script with its output going straight to the rank's own file, and reports how it ended. The
script dies with this wrapper (PDEATHSIG), and this wrapper ends it when the supervisor has.
With the argument LAUNCH mpirun starts it instead of ssh: see `launch`.

Every rank imports this, so it uses the C modules `_socket` and `_signal`, and marshal: 1 ms of
imports where socket, signal and json take 10 ms.
"""

import _signal as signal
import _socket as socket
import marshal
import os
import resource
import select
import struct
import sys
import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Mapping
    from typing import Any

    Message = dict[str, Any]  # a document of common/wrapper_messages.py
    Exit = tuple[int | None, int | None]  # exit code, or signal
    Processes = dict[int, tuple[str, int]]  # by pid: state, parent

PASSED_ON = ("PMI_", "MPI_", "I_MPI_", "HYDRA_", "OMPI_", "PMIX_", "PRTE_", "MPIR_")
RUN_MARK = "IPEXCTL_RUN_ID"
SUPERVISOR, GUARDIAN = "ipexctl-run", "ipexctl-guard"  # names of their processes
OOM_SCORE = 500  # of 1000; a higher value set by the user stays
LAUNCH = "launch"
LENGTH = struct.Struct("=I")  # of a message
KILLED = 255  # exit code for a killed wrapper: a signal's would mean that this program was killed


def greet_supervisor(message: "Message") -> "tuple[socket.socket, Messages]":
    """Connect to the supervisor and send the first message. Return (connection, messages)."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(os.environ["IPEXCTL_SOCKET"])
    send_message(link, message)
    return link, Messages(link)


def request_launch(argv: "list[str]") -> int:
    """Hand mpirun's `HOST COMMAND` to the first host's supervisor, and wait for its exit code.

    That supervisor, the hub, passes it to the supervisor of HOST. No SSH connects the hosts,
    so there are no keys, no host keys and no prompts.
    """
    _, reader = greet_supervisor({"kind": "LaunchAsks", "argv": argv})
    message = reader.next()
    if message is None:  # the supervisor has ended
        return 255
    if message["kind"] == "AskRefused":
        sys.stderr.write("ipexctl: %s\n" % message["refused"])
        return 255
    return int(message["exit"])


def main(rank: "int | None", local_rank: "int | None") -> int:
    """Run one rank: get its orders, supervise the script, report its end; return the exit code."""
    link, reader = greet_supervisor({"kind": "RankAsks", "rank": rank, "local": local_rank})
    orders = reader.next()
    if orders is None or orders["kind"] == "AskRefused":
        why = orders["refused"] if orders else "the supervisor has ended"
        sys.stderr.write("ipexctl rank: %s\n" % why)
        return 125
    set_subreaper()
    start = time.monotonic()
    code, sign = supervise_script(orders, reader, link)
    end = time.monotonic()
    usage = usage_since(start)
    kill_all("", os.getpid())
    try:
        ended = {"kind": "ScriptEnded", "at": end, "code": code, "signal": sign, "usage": usage}
        send_message(link, ended)
        # when this process exits, MPI ends all ranks: wait until the first failure is recorded
        reply = reader.next()
        while reply is not None and reply["kind"] != "EndNoted":
            reply = reader.next()
        if reply is not None:
            return 0  # if Python aborted after the script was done, MPI must not end the others
    except OSError:
        pass
    return (code or 0) if sign is None else 128 + sign


def usage_since(start: float) -> "dict[str, float]":
    """Return what the script used, including the children that it waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime
    return {"seconds": time.monotonic() - start, "cpu": cpu, "memory": usage.ru_maxrss << 10}


def start_from_mpi() -> int:
    """Run the rank that mpirun has named in the environment."""
    rank = first_number(os.environ, "PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
    local_rank = first_number(os.environ, "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK")
    return main(rank, local_rank)


def start_all(places: "list[str]") -> int:
    """Start a wrapper for each RANK:LOCAL_RANK without MPI, and wait for them."""
    parent = os.getpid()
    for place in places:
        if os.fork() == 0:
            try:
                die_with_parent(parent)
                os._exit(main(*[int(number) for number in place.split(":")]) & 255)
            finally:
                os._exit(125)
    worst = 0
    for _ in places:
        _, status = os.wait()
        worst = max(worst, os.WEXITSTATUS(status) if os.WIFEXITED(status) else KILLED)
    if worst == KILLED:
        time.sleep(1.0)  # supervisors wait before they report a killed rank: that comes first
    return worst


def first_number(env: "Mapping[str, str]", *names: str) -> "int | None":
    for name in names:
        if env.get(name, "").isdigit():
            return int(env[name])
    return None


def rank_environment(orders: "Message") -> "dict[str, str]":
    env = {k: v for k, v in os.environ.items() if k.startswith(PASSED_ON)}
    env.update(orders["env"])
    env[RUN_MARK] = os.environ[RUN_MARK]
    return env


def supervise_script(orders: "Message", reader: "Messages", link: "socket.socket") -> "Exit":
    """Start the script and wait for it. Return (code, None) or (None, signal)."""
    wake_out, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_in)
    pid, placement = start_script(orders)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda n, _: signal_group(pid, n))
    started = {"kind": "ScriptStarted", "pid": pid, "wrapper": os.getpid(), "where": placement}
    send_message(link, started)
    watched = [wake_out, link]  # type: list[int | socket.socket]
    while True:
        exit_state = reap_children(pid)
        if exit_state is not None:
            signal_group(pid, signal.SIGKILL)
            return exit_state
        ready, _, _ = select.select(watched, [], [], 1.0)
        if wake_out in ready:
            os.read(wake_out, 512)
        if link in ready and not forward_signals(reader, pid):
            # the supervisor has ended, and with it the run on this host
            signal_group(pid, signal.SIGKILL)
            watched = [wake_out]


def forward_signals(reader: "Messages", pid: int) -> bool:
    """Forward signals that the supervisor orders. Return False when it has ended."""
    while True:
        message = reader.next()
        if message is None:
            return False
        if message["kind"] == "SignalScript":
            signal_group(pid, message["signal"])
        if not reader.whole():
            return True


def start_script(orders: "Message") -> "tuple[int, Message]":
    """Return the script's process, and its CPUs just before it became the script."""
    parent = os.getpid()
    read_end, write_end = os.pipe()  # exec closes the child's end
    pid = os.fork()
    if pid:
        os.close(write_end)
        with open(read_end, "rb") as f:
            data = f.read()
        return pid, marshal.loads(data) if data else {}
    try:
        os.setpgid(0, 0)
        die_with_parent(parent)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        log = os.open(orders["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(orders["cwd"])
        if orders["umask"] is not None:
            os.umask(orders["umask"])
        die_first_of_memory()
        if orders["cpus"]:
            pin_to_cpus(orders["cpus"])
        prefer_memory(orders["node"])
        os.write(write_end, marshal.dumps({"cpus": sorted(os.sched_getaffinity(0))}, 2))
        os.execve(orders["argv"][0], orders["argv"], rank_environment(orders))
    except BaseException as e:
        os.write(2, ("ipexctl: cannot start %s: %s\n" % (orders["argv"][0], e)).encode())
    finally:
        os._exit(127)


def die_first_of_memory() -> None:
    """Make the kernel's OOM killer prefer a rank to the processes that report and sweep."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as f:
            if int(f.read()) < OOM_SCORE:
                f.seek(0)
                f.write("%d" % OOM_SCORE)
    except (OSError, ValueError):
        pass  # a container may forbid it


def pin_to_cpus(cpus: "list[int]") -> None:
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as e:
        os.write(2, ("ipexctl: not pinned to CPUs %s: %s\n" % (cpus, e)).encode())


def prefer_memory(node: "int | None") -> None:
    """Allocate memory from that NUMA node first, unless a container forbids it."""
    number = {"x86_64": 238, "aarch64": 237}.get(os.uname().machine)
    if node is None or number is None:
        return
    try:
        import ctypes

        words = node // 64 + 1
        mask = (ctypes.c_ulong * words)()
        mask[node // 64] = 1 << (node % 64)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall(number, 1, mask, ctypes.c_ulong(words * 64 + 1))  # MPOL_PREFERRED
    except Exception:
        pass  # no libffi


def reap_children(pid: int) -> "Exit | None":
    """Collect every child that ended (this is a subreaper). Return how `pid` ended, or None."""
    while True:
        try:
            ended_pid, status = os.waitpid(-1, os.WNOHANG)
        except OSError:
            return None
        if ended_pid == 0:
            return None
        if ended_pid == pid:
            if os.WIFSIGNALED(status):
                return None, os.WTERMSIG(status)
            return os.WEXITSTATUS(status), None


def signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except OSError:
        try:
            os.kill(pid, number)  # before its setpgid
        except OSError:
            pass


# --- small parts, also used by supervisors and guardians ----------------------------------------


class Messages:
    """Messages sent by `send_message`, from a socket that only this user can connect to."""

    def __init__(self, link: "socket.socket") -> None:
        self.link = link
        self.buffer = b""

    def next(self) -> "Message | None":
        """Return the next message, or None if the other end has closed the connection."""
        while not self.whole():
            try:
                data = self.link.recv(65536)
            except OSError:
                data = b""
            if not data:
                return None
            self.buffer += data
        end = self.end()
        data, self.buffer = self.buffer[LENGTH.size : end], self.buffer[end:]
        message: "Message" = marshal.loads(data)
        return message

    def whole(self) -> bool:
        return len(self.buffer) >= LENGTH.size and len(self.buffer) >= self.end()

    def end(self) -> int:
        size: int = LENGTH.unpack_from(self.buffer)[0]
        return LENGTH.size + size


def send_message(link: "socket.socket", message: "Message") -> None:
    data = marshal.dumps(message, 2)  # the version that every Python 3 reads
    link.sendall(LENGTH.pack(len(data)) + data)


def prctl(option: int, value: object) -> None:
    try:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    except Exception:
        pass  # no libffi: the socket and the sweep still end the script


def die_with_parent(parent: int) -> None:
    prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)


def set_subreaper() -> None:
    prctl(36, 1)


def set_name(name: str) -> None:
    """Set the name that `ps -o comm` and `pgrep -x` show, of up to 15 characters."""
    import ctypes

    prctl(15, ctypes.create_string_buffer(name.encode("ascii")))


def kill_all(run_id: str, ancestor: int, seconds: float = 5.0) -> "list[int]":
    """Kill the run's processes until none is found. Return those that could not be killed."""
    deadline = time.time() + seconds
    while True:
        survivors = find_run_processes(run_id, ancestor)
        if not survivors or time.time() > deadline:
            return survivors
        for pid in survivors:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.02)


def find_run_processes(run_id: str, ancestor: int) -> "list[int]":
    """Return the processes that descend from `ancestor` or carry the run's id, without this one.

    Descent finds those that cleared their environment: `ancestor` is a subreaper, so orphans stay
    below it. The id finds those whose subreaper was killed.
    """
    alive = list_processes()
    pids = find_descendant_pids(ancestor, alive)
    if run_id:
        mark = ("%s=%s" % (RUN_MARK, run_id)).encode()
        pids.update(pid for pid in alive if pid not in pids and carries_run_mark(pid, mark))
    return [pid for pid in pids if pid not in (os.getpid(), ancestor) and alive[pid][0] not in "ZX"]


def find_descendant_pids(ancestor: int, alive: "Processes") -> "set[int]":
    """Return the descendants of a process. `alive`: the result of `processes`."""
    children = {}  # type: dict[int, list[int]]
    for pid, (_, parent) in alive.items():
        children.setdefault(parent, []).append(pid)
    descendants, todo = set(), [ancestor]  # type: set[int], list[int]
    while todo:
        child_pids = children.get(todo.pop(), [])
        descendants.update(child_pids)
        todo.extend(child_pids)
    return descendants


def list_processes() -> "Processes":
    """Return {pid: (state, parent)}. Read again if a parent ended meanwhile: its children have
    another parent by now."""
    while True:
        processes = {int(name): stat_of(name) for name in os.listdir("/proc") if name.isdigit()}
        unread = {pid for pid, (state, _) in processes.items() if state == "X"}
        parents = {parent for _, parent in processes.values()} & unread
        if all(os.path.isdir("/proc/%d" % pid) for pid in parents):  # else: hidepid
            return processes


def stat_of(pid: "int | str") -> "tuple[str, int]":
    """Return (state, parent); a process that is gone has state X."""
    try:
        with open("/proc/%s/stat" % pid, "rb") as f:
            fields = f.read().rsplit(b")", 1)[1].split()
        return fields[0].decode(), int(fields[1])
    except (OSError, ValueError, IndexError):
        return "X", 0


def carries_run_mark(pid: int, mark: bytes) -> bool:
    try:
        if os.stat("/proc/%d" % pid).st_uid != os.getuid():
            return False
        with open("/proc/%d/environ" % pid, "rb") as f:
            return mark in f.read().split(b"\0")
    except OSError:
        return False


if __name__ == "__main__":
    if sys.argv[1:2] == [LAUNCH]:
        code = request_launch(sys.argv[2:])
    else:
        code = start_all(sys.argv[1:]) if sys.argv[1:] else start_from_mpi()
    sys.stdout.flush()
    os._exit(code & 255)
