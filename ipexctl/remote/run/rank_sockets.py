"""A run's socket on its host: wrappers of ranks call it, and what mpirun starts instead of ssh."""

import os
import socket
import stat
import threading
import time

from ipexctl.common import run_events
from ipexctl.common.journal_records import OwnRankEnded, OwnRankStarted
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.wrapper_messages import (
    AskRefused,
    LaunchAsks,
    RankAsks,
    ScriptEnded,
    ScriptOrder,
    ScriptStarted,
    SignalScript,
    WrapperMessage,
    WrapperOrder,
)
from ipexctl.remote import own_process
from ipexctl.remote.own_process import start_thread
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run import health_sampler
from ipexctl.remote.run.host_programs import HESITATION, own_variables
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.run.supervisor import Supervisor

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
# only for ranks, as a proxy's address can hold a password: mpirun's environment may travel
KEPT_OF_RANKS = (
    PROXIES
    + tuple(name.upper() for name in PROXIES)
    + ("HF_HOME", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
)
# modules that Python or rank_site.py runs automatically
LATER = {"sitecustomize", "thread_waits", "rank_groups"}
LAST_WORDS = 8192  # bytes of a rank's output that the journal keeps
CRASHES = (4, 5, 6, 7, 8, 11)  # signals by which a process ends itself, unlike SIGKILL


class Ranks:
    def __init__(self, supervisor: "Supervisor") -> None:
        self.supervisor = supervisor
        self.plan: StartOrder = supervisor.plan
        self.lock = threading.Lock()
        self.links = {}  # type: dict[int, socket.socket]  # rank -> connection
        self.running = set()  # type: set[int]  # ranks whose end has not been reported yet
        # key -> connection of a bootstrap program
        self.launches = {}  # type: dict[int, socket.socket]
        self.killed_for_memory = health_sampler.oom_kills()

    def listen(self) -> "socket.socket":
        path = self.supervisor.programs.get_socket_path()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
        listener.listen(512)
        return listener

    def accept(self, listener: "socket.socket") -> None:
        threading.stack_size(256 * 1024)
        while not self.supervisor.over:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            start_thread(self.serve_connection, link)

    def serve_connection(self, link: "socket.socket") -> None:
        reader = rank_wrapper.Messages(link)
        first = next_message(reader)
        if isinstance(first, RankAsks):
            self.serve_rank(link, reader, first)
        elif isinstance(first, LaunchAsks):
            self.serve_launch(link, reader, first)
        link.close()

    def serve_rank(
        self, link: "socket.socket", reader: "rank_wrapper.Messages", asks: RankAsks
    ) -> None:
        """Serve a rank's wrapper from its first message to its end: orders, log, exit code."""
        number = -1 if asks.rank is None else asks.rank
        order = self.make_script_order(link, asks)
        if isinstance(order, ScriptOrder):
            try:
                self.supervisor.begin_log(number, order.log)
            except OSError as e:
                order = AskRefused("cannot make the log of rank %s: %s" % (number, e))
        if isinstance(order, AskRefused):
            self.supervisor.report(run_events.RankRefused(order.refused))
            send_if_connected(link, order)
            return
        self.running.add(number)
        send_if_connected(link, order)
        exit_state, pid, end_time = self.wait_for_end(number, reader)
        if not exit_state.lost:
            self.supervisor.end_log(number)
        if exit_state.code != 0:
            exit_state.hints = tuple(self.collect_hints(pid))
        tail = run_folders.end_of_log(self.supervisor.dir, number, LAST_WORDS)
        code = self.exit_code(pid) if pid is not None and exit_state.signal in CRASHES else None
        if code is not None:
            exit_state.code, exit_state.signal, exit_state.at_exit = code, None, exit_state.signal
        if exit_state.code == 0 or not self.supervisor.is_ending(end_time):  # else we killed it
            self.supervisor.note(OwnRankEnded(number, exit_state), sync=True)
            self.supervisor.report(run_events.RankExited(number, exit_state, tail))
        self.running.discard(number)
        reader.next()  # the wrapper stays until the hub has recorded its end
        with self.lock:
            self.links.pop(number, None)

    def wait_for_end(
        self, number: int, reader: "rank_wrapper.Messages"
    ) -> "tuple[run_events.Exit, int | None, float]":
        """Wait for a rank's end. Return how it ended, its process, and when it ended."""
        pid = None
        while True:
            message = next_message(reader)
            if message is None:  # the wrapper was killed: it reported no end
                end_time = time.monotonic()
                self.forget(number)
                time.sleep(HESITATION)  # if MPI's end killed it, that is reported first
                return run_events.Exit(None, lost=True), pid, end_time
            if isinstance(message, ScriptStarted):
                pid = message.pid
                self.supervisor.sampler.add(number, pid, message.wrapper)
                self.supervisor.traffic.add(number, pid, message.wrapper)
                self.supervisor.note(OwnRankStarted(number))
                self.supervisor.report(run_events.RankStarted(number, pid, message.where))
            elif isinstance(message, ScriptEnded):
                self.forget(number)
                end = run_events.Exit(message.code, message.signal, usage=message.usage)
                return end, pid, message.at

    def exit_code(self, pid: int) -> "int | None":
        """Return the code with which the script ended, if Python crashed only afterwards."""
        try:
            with open(os.path.join(self.supervisor.programs.site(), "%d.ended" % pid)) as f:
                return int(f.read())
        except (OSError, ValueError):
            return None

    def forget(self, number: int) -> None:
        self.supervisor.sampler.remove(number)
        self.supervisor.traffic.remove(number)

    def collect_hints(self, pid: "int | None") -> "list[str]":
        """Return what this host knows about a rank's end that the rank could not report."""
        memory = health_sampler.oom_hint(self.killed_for_memory, pid)
        hints = [memory] if memory else []
        try:
            disk = os.statvfs(self.supervisor.logs)
            if disk.f_bavail * disk.f_frsize < 64 * 1024:
                hints.append("disk-full")
        except OSError:
            pass
        return hints

    def make_script_order(
        self, link: "socket.socket", asks: RankAsks
    ) -> "ScriptOrder | AskRefused":
        """Return what a wrapper needs to start its rank, or why that is not planned."""
        ranks = {rank.rank: rank for rank in self.plan.ranks}
        number, local = asks.rank, asks.local
        if number not in ranks:
            planned = sorted(ranks)
            return AskRefused("mpirun started rank %s here, the plan has %s" % (number, planned))
        place = ranks[number]
        if local is not None and local != place.local_rank:
            ranks_here = number, local, place.local_rank
            return AskRefused("rank %d is local rank %d here, not %d" % ranks_here)
        with self.lock:
            if number in self.links:
                return AskRefused("rank %d is here twice" % number)
            self.links[number] = link
        env = own_variables(KEPT_OF_RANKS)
        error_file = os.path.join(self.supervisor.logs, "rank%05d.error.json" % number)
        env["TORCHELASTIC_ERROR_FILE"] = error_file
        env.update(self.supervisor.programs.make_base_env())
        env.update(place.env)
        if self.plan.modules:
            own_path = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
            env["IPEXCTL_MODULES"] = " ".join(sorted(set(self.plan.modules) - LATER))
            env["IPEXCTL_RANK"] = str(number)  # a launcher in the rank may set RANK itself
            env["PYTHONPATH"] = os.pathsep.join([self.supervisor.programs.site()] + own_path)
        log = run_folders.log_of(self.supervisor.dir, number)
        umask = own_process.account_umask
        return ScriptOrder(env, place.argv, self.plan.cwd, log, place.cpus, place.node, umask)

    def signal(self, number: int) -> None:
        with self.lock:
            links = list(self.links.values())
        for link in links:
            send_if_connected(link, SignalScript(number))

    def serve_launch(
        self, link: "socket.socket", reader: "rank_wrapper.Messages", asks: LaunchAsks
    ) -> None:
        """Serve mpirun, which wants COMMAND run on HOST: only the hub can arrange that."""
        with self.lock:
            key = len(self.launches) + 1
            self.launches[key] = link
        self.supervisor.report(run_events.Launch(key, asks.argv))
        reader.next()  # returns when the program is gone, whether it ended or was killed
        self.supervisor.report(run_events.Unlaunch(key))


def next_message(reader: "rank_wrapper.Messages") -> "WrapperMessage | None":
    """Return the next message of a wrapper, or None if it has closed the connection."""
    document = reader.next()
    return None if document is None else WrapperMessage.read(document)


def send_if_connected(link: "socket.socket | None", message: WrapperOrder) -> None:
    if link is not None:
        try:
            rank_wrapper.send_message(link, message.document())
        except OSError:
            pass  # it has ended on its own
