"""The hosts of a command: connect, run work on all in parallel, record failures, close."""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from ipexctl import trace
from ipexctl.base.host_answer import Answer
from ipexctl.base.host_outcome import HostDown, HostResult, HostState
from ipexctl.base.shell_line import shell_line
from ipexctl.errors import IpexctlError
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local import last_outcome
from ipexctl.local.corrected_command import with_corrected_commands
from ipexctl.machines import agent_sources
from ipexctl.machines.agent import TOTAL, Agent
from ipexctl.machines.agent_start import Ahead, start_host_agent
from ipexctl.machines.suggested_commands import retry_without, spelled_downs, spelled_error
from ipexctl.machines.target import ROOT, Target, over_ssh, read_inventory, root_of
from ipexctl.machines.wire.transport import LocalTransport, RemoteTransport

SILENCE = 60.0  # a working host reports more often
GRACE = 5.0  # extra seconds that doctor gives a slow host to connect
_CLOSERS = 16
M_ARENA_MAX = -8
FEW = 32  # hosts: sending bytecode takes the controller 3 ms per host, and saves 0.1 s in total

T = TypeVar("T")


class Fleet:
    """The hosts of one command. A host that fails is added to `downs` and skipped from then on.

    The context manager opens and closes the SSH transport and the agents. It also adds the user's
    options to the commands that an escaping error suggests. `grace` extends the connect timeout.
    """

    def __init__(
        self,
        target: Target,
        root: str = ROOT,
        hosts: Inventory | None = None,
        grace: float = 0.0,
    ) -> None:
        self.target = target
        self.root = root
        self.hosts = hosts or _hosts_of(target, root)
        self.agents: dict[Host, Agent] = {}
        self.downs: dict[Host, HostDown] = {}
        self.asked = threading.Event()  # a host has its first request, and starts Python
        self._connect_timeout = target.connect_timeout + grace
        self._began = time.monotonic()
        self._local = LocalTransport()
        self._ssh: RemoteTransport | None = None
        self._bytecode = agent_sources.load_bytecodes()
        self._bytecode_seen: dict[str, str] = {}

    def __enter__(self) -> Fleet:
        if remote := tuple(host for host in self.hosts.hosts if not host.local):
            _one_heap()
            try:
                with trace.span("ssh"):
                    self._ssh = over_ssh(self.target, remote)
            except IpexctlError as e:
                raise spelled_error(e, self.target, self.root) from None
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        agent_sources.store_bytecodes(self._bytecode_seen)
        try:
            agents = dict(self.agents)
            fan_out(list(agents), lambda host: agents[host].close(), forks=_CLOSERS)
        finally:
            if self._ssh:
                self._ssh.close()
        if isinstance(error, IpexctlError):
            spelled_error(error, self.target, self.root)

    # -- one host; called from worker threads --

    def connect(self, host: Host, *, python: str = "", ahead: Sequence[Ahead] = ()) -> Agent:
        """Start the host's agent and keep it in `agents`."""
        transport = self._ssh if self._ssh and not host.local else self._local
        key = agent_sources.python_key(host, python)
        with trace.span("connect", host.name):
            agent = start_host_agent(
                transport,
                host,
                timeout=self._connect_timeout,
                python=python,
                ahead=ahead,
                bytecode=self._takes_bytecode(key),
            )
        if agent.hello.passed:
            self.target.note(f"{agent.hello.passed}; {agent.hello.started} is used instead")
        self._bytecode_seen[key] = agent.hello.bytecode
        self.agents[host] = agent
        return agent

    def _takes_bytecode(self, key: str) -> bool:
        return (
            len(self.hosts.hosts) <= FEW and self._bytecode.get(key) == agent_sources.OUR_BYTECODE
        )

    def reconnect(self, host: Host, *, ahead: Sequence[Ahead] = ()) -> Agent:
        """Replace the agent whose connection ended by a new one."""
        if old := self.agents.get(host):
            old.close()
        return self.connect(host, ahead=ahead)

    def disconnect(self, host: Host) -> None:
        """Close this host's agent before the others."""
        self.agents.pop(host).close()

    def attend(self, host: Host, command: str, *, pty: bool) -> int:
        """Run a command over SSH with our stdin, stdout and stderr. Returns its exit code."""
        assert self._ssh
        return self._ssh.attend(host, command, self._connect_timeout, pty=pty)

    def root_of(self, host: Host) -> str:
        return root_of(host, self.root)

    def call(self, host: Host, op: str, *, total: float = TOTAL, **args: Any) -> Answer:
        header = {"root": self.root_of(host), **args}
        return self.agents[host].call(op, header, timeout=SILENCE, total=total).done

    # -- all hosts --

    @property
    def alive(self) -> list[Host]:
        """The hosts that have not failed, in hostfile order."""
        return [host for host in self.hosts.hosts if host not in self.downs]

    def map_hosts(
        self, work: Callable[[Host], T], hosts: Sequence[Host] | None = None
    ) -> dict[Host, T]:
        """Run `work` on `hosts` (default: all alive). Returns the results of those that succeed."""
        hosts = self.alive if hosts is None else hosts
        return self.record(fan_out(hosts, work, forks=self.target.forks))

    def leave_out(self, host: Host) -> None:
        """Forget a failed host that the command goes on without."""
        del self.downs[host]
        remaining = tuple(other for other in self.hosts.hosts if other is not host)
        self.hosts = replace(self.hosts, hosts=remaining)

    def record(self, outcomes: Mapping[Host, T | HostDown]) -> dict[Host, T]:
        """Add failed hosts to `downs`. Returns the results of the others."""
        results: dict[Host, T] = {}
        for host, outcome in outcomes.items():
            if isinstance(outcome, HostDown):
                self.downs[host] = outcome
            else:
                results[host] = outcome
        return results

    # -- outcome --

    @property
    def failures(self) -> tuple[HostDown, ...]:
        """The failed hosts in order of failure, with hints that carry the user's options, and the
        corrected command where a word of it was probably another."""
        downs, typed = tuple(self.downs.values()), self.target.typed
        spelled = spelled_downs(downs, self.target, self.root)
        return with_corrected_commands(spelled, (*typed.options, *typed.script))

    def without_downs(self) -> str:
        """Return the command as it was typed for the reachable hosts; "" if these are none or all,
        or if a host key has to be accepted first."""
        slugs = {down.slug for down in self.downs.values()}
        unreachable = [d.host for d in self.downs.values() if d.state is HostState.UNREACHABLE]
        if "host-key-unknown" in slugs or len(unreachable) == len(self.hosts.hosts):
            return ""
        return retry_without(self.target.typed, unreachable)

    def recaps(self, results: Mapping[Host, HostResult] | None = None) -> tuple[HostResult, ...]:
        """Return the recaps in `results` and one for each failed host, in hostfile order."""
        seconds = time.monotonic() - self._began
        recaps = {host.name: recap for host, recap in (results or {}).items()}
        recaps |= {down.host: recap_of(down, seconds) for down in self.failures}
        return tuple(recaps[host.name] for host in self.hosts.hosts if host.name in recaps)

    def remember(self, states: Mapping[str, str], command: str) -> None:
        """Store the outcome for @healthy and @last-failed."""
        last_outcome.remember_states(self.hosts, states, command)

    def remember_recaps(self, recaps: Sequence[HostResult]) -> None:
        self.remember({recap.host: recap.state.value for recap in recaps}, "install")


def _one_heap() -> None:
    """Use one malloc arena for all threads: 64 hosts take 7 MiB less memory."""
    with suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def _hosts_of(target: Target, root: str) -> Inventory:
    try:
        return read_inventory(target)
    except IpexctlError as e:  # about --limit and -x, so the suggested command goes without them
        named = () if e.slug == "not-a-host" else target.hosts  # nor with a host that is none
        without = replace(target, limit=(), exclude=(), hosts=named)
        raise spelled_error(e, without, root) from None


def recap_of(down: HostDown, seconds: float) -> HostResult:
    hint = "\n".join(map(shell_line, down.hint.splitlines()))
    notes = tuple(text for text in (down.why, hint and f"try: {hint}") if text)
    return HostResult(down.host, down.state, down.what, seconds, notes, slug=down.slug)


def fan_out(
    hosts: Sequence[Host], work: Callable[[Host], T], *, forks: int = 32
) -> dict[Host, T | HostDown]:
    """Run `work` for each host, at most `forks` at a time. A host's failure is its value.

    Deadlines belong to `work` (every channel read has one).
    """
    todo: queue.SimpleQueue[Host] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Host, T | HostDown | BaseException]] = queue.SimpleQueue()
    for host in hosts:
        todo.put(host)
    for _ in range(min(forks, len(hosts))):
        threading.Thread(target=_work_on_hosts, args=(todo, done, work), daemon=True).start()
    outcomes: dict[Host, T | HostDown] = {}
    for _ in hosts:
        host, value = done.get()
        if isinstance(value, BaseException):
            raise value
        outcomes[host] = value
    return {host: outcomes[host] for host in hosts}


def start_in_thread(work: Callable[[], T]) -> Callable[[], T]:
    """Start `work` in a thread. Return a function that waits for its result or raises its error."""
    from concurrent.futures import Future

    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as e:
            future.set_exception(e)

    threading.Thread(target=run, daemon=True).start()
    return future.result


def _work_on_hosts(
    todo: queue.SimpleQueue[Host],
    done: queue.SimpleQueue[tuple[Host, T | HostDown | BaseException]],
    work: Callable[[Host], T],
) -> None:
    while True:
        try:
            host = todo.get_nowait()
        except queue.Empty:
            return
        done.put((host, _outcome_of(host, work)))


def _outcome_of(host: Host, work: Callable[[Host], T]) -> T | HostDown | BaseException:
    try:
        return work(host)
    except IpexctlError as e:
        return HostDown.of(host.name, e)
    except BaseException as e:  # a bug of ours: raised again in the caller's thread
        return e
