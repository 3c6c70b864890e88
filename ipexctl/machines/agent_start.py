"""Starting an agent: sends parts of remote/ over a channel's stdin and waits for their hello.

The login shell gets one line (no quotes inside, no newline: csh and fish read it as well). It tries
the pythons it finds; the first that is new enough reads a boot line from stdin, then the compressed
sources. Its stdout is ignored up to a random marker: banners and noisy start-up files do no harm.
Without a usable python the same line prints what plain sh can tell, behind the same marker.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ipexctl import trace
from ipexctl.base import quoting
from ipexctl.base.host_answer import Answer
from ipexctl.errors import HostFailed, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines import agent_sources
from ipexctl.machines.agent import Agent, Hello, tail, text_of, unreadable
from ipexctl.machines.openssh import login_command, startup_files
from ipexctl.machines.wire.frames import LIMIT, BadFrame, Decoder, encode
from ipexctl.machines.wire.transport import Channel, ChannelTimeout, Transport
from ipexctl.quick_dataclass import dataclass

NOISE_LIMIT = 1 << 20
NOISE_TAIL = 1 << 13  # of it is kept: a marker with the path of a Python may come in two pieces
HELLO_LIMIT = 1 << 16
SH_LIMIT = 8 << 20  # a /proc/cpuinfo of a thousand CPUs is 2 MiB
OLD_PYTHON, BOOT_FAILED, INPUT_GONE = 97, 98, 96
# our code has read stdin, or a signal meant us; with any other, the interpreter itself did not run
_ENDS = f"0|{BOOT_FAILED}|129|130|137|141|143"
# Where remote/facts/probe.py looks, too. The shell expands ~ and *.
PYTHONS = " ".join(
    (
        "python3 /usr/bin/python3 /usr/local/bin/python3",
        *(f"python3.{minor}" for minor in range(15, 5, -1)),
        *(f"~/{name}/bin/python3" for name in ("miniconda3", "miniforge3", "anaconda3")),
        "~/mambaforge/bin/python3 ~/.pyenv/versions/*/bin/python3 /opt/*/bin/python3",
        "~/.local/share/uv/python/*/bin/python3 ~/.ipexctl/pythons/*/bin/python3",
    )
)
HUNG = 2  # Pythons that do not answer, of one host: so long a command waits, and no longer
SILENT = 4  # programs called python3 that end without an error and without an answer
# Without quotes of either kind. The boot line begins with `s=`.
_BOOT = (
    f"import sys;sys.version_info<(3,6) and sys.exit({OLD_PYTHON});import os,json,zlib;"
    "sys.excepthook=lambda *e:(sys.__excepthook__(*e),sys.stderr.flush(),"
    f"os._exit({BOOT_FAILED}));l=sys.stdin.buffer.readline();"
    f"l[:2]==bytes((115,61)) or sys.exit({INPUT_GONE});exec(l)"
)
_SH_FACTS = (
    "echo; echo $0-sh; set -f; echo :tried; while [ $# -gt 1 ]; do "
    'echo $1 "$2": $("$2" -ISc 1 2>&1 </dev/null | head -n 5); shift 2; done; '
    "echo :kernel; uname -sr; echo :arch; uname -m; echo :hostname; uname -n; "
    "echo :user; id -un; echo :uid; id -u; echo :home; echo $HOME; "
    "echo :ssh; echo $SSH_CONNECTION; echo :boot; cat /proc/sys/kernel/random/boot_id; "
    "echo :mem; cat /proc/meminfo; echo :os; cat /etc/os-release; "
    "echo :df; df -Pk $HOME /dev/shm; echo :cpu; cat /proc/cpuinfo; echo :end"
)


@dataclass(frozen=True)
class Hung:
    """A Python that gave no answer; it runs in the process group of the shell `group`. 0: it has
    ended, without an error: a stub, or a wrapper that swallows its arguments."""

    path: str
    group: int


def command_line(marker: str, python: str = "", hung: Sequence[Hung] = ()) -> str:
    """The line for the login shell. `python` is tried first when the user named one.

    Each one is announced before it starts. Those of `hung` are ended; they and their links are
    passed over. The others that failed are left as $1 $2, $3 $4: how each ended and its path; so
    are those that have ended without an answer.
    """
    for path in (python, *(h.path for h in hung)):
        if path and not _is_plain(path):
            raise HostFailed(
                f"the path of Python, {path!r}, contains special characters", slug="bad-python-path"
            )
    links = " ".join(h.path for h in hung)
    same = f'for h in {links}; do [ "$p" -ef $h ] && continue 2; done; ' if hung else ""
    end = f"kill -9 -{hung[-1].group} 2>/dev/null; " if hung and hung[-1].group else ""
    end += "".join(f'set -- "$@" 0 {h.path}; ' for h in hung if not h.group)
    script = (
        f'{end}for p in {python} {PYTHONS}; do p=$(command -v "$p" 2>/dev/null) || continue; {same}'
        f'echo; echo $0-try $$ "$p"; "$p" -ISc "{_BOOT}"; r=$?; '
        f"case $r in {INPUT_GONE}) echo; echo $0-gone; {startup_files.FIND_READERS}; exit $r;; "
        f'{_ENDS}) exit $r;; esac; set -- "$@" $r "$p"; done; {_SH_FACTS}'
    )
    return quoting.quote(("exec", "/bin/sh", "-c", script, marker))


def _is_plain(path: str) -> bool:
    return all(c.isalnum() or c in "/._-+" for c in path)


NEAR = 0.003  # seconds of a round trip to a host to which bytes are cheap
AHEAD = 1  # the number of the first request that went with the agent


@dataclass(frozen=True)
class Ahead:
    """A request for an operation. `fork`: the operation for which the agent forks before it has
    threads; `also`: operations whose modules that process imports by name."""

    op: str
    args: Mapping[str, Any]
    fork: str = ""
    also: tuple[str, ...] = ()

    @property
    def ops(self) -> tuple[str, ...]:
        return (self.op, self.fork, *self.also) if self.fork else (self.op,)

    def encoded(self, number: int) -> bytes:
        fork = encode({"id": 0, "fork": self.fork}) if self.fork else b""
        return fork + encode({**self.args, "id": number, "op": self.op})


def connect(
    transport: Transport,
    host: Host,
    *,
    timeout: float = 20.0,
    python: str = "",
    ahead: Sequence[Ahead] = (),
    bytecode: bool = False,
) -> Agent:
    """One channel, one exec: sends the agent and waits for its hello.

    The requests `ahead` go with it, so that their answers come a round trip earlier:
    `agent.wait(AHEAD)`, then of the next ones. After a Python that gives no answer the next one is
    tried, over a channel of its own; so is the same one, if it has another bytecode than expected.
    """
    passed: tuple[Hung, ...] = ()
    bytecode = bytecode and bool(agent_sources.compiled())
    while True:
        pythons = (python or host.python, passed)
        try:
            return _connect(transport, host, timeout, pythons, ahead, bytecode=bytecode)
        except _OtherBytecode:
            bytecode = False
        except _Hangs as e:
            passed += (e.hung,)
            if e.silent and len(passed) > SILENT:
                raise e.silent from None
            hung = [h.path for h in passed if h.group]
            if len(hung) > HUNG:
                raise HostFailed(
                    f"{host.name}: no Python on this host responds: {', '.join(hung)}",
                    why=f"each was started and did not respond within {timeout:.0f} s",
                    hint=login_command.ssh(host, f"{e.hung.path} -c 1")
                    + "   # should return immediately; or use another one: --python PATH",
                    slug="python-no-answer",
                ) from None


class _OtherBytecode(Exception):
    pass


class _Hangs(Exception):
    def __init__(self, hung: Hung, silent: HostFailed | None = None) -> None:
        self.hung, self.silent = hung, silent


def _connect(
    transport: Transport,
    host: Host,
    timeout: float,
    pythons: tuple[str, tuple[Hung, ...]],
    ahead: Sequence[Ahead],
    *,
    bytecode: bool,
) -> Agent:
    deadline = time.monotonic() + timeout
    marker = "ipexctl" + secrets.token_hex(12)
    ops = [op for asked in ahead for op in asked.ops]
    shipped = frozenset[str]().union(*map(agent_sources.needed, ops))
    asked = b"".join(one.encoded(number) for number, one in enumerate(ahead, AHEAD))
    channel = transport.open(host, command_line(marker, *pythons), timeout)
    try:
        sent = time.monotonic()
        with suppress(OSError):  # without python nobody reads stdin; what sh printed is still there
            payload = agent_sources.boot_payload(marker, shipped, bytecode=bytecode)
            channel.write(payload + asked)
        kind, rest, started = _skip_noise(channel, host, marker.encode(), deadline)
        hello = Hello("sh", sent=sent, received=time.monotonic())
        hello = replace(hello, hung=tuple(h.path for h in pythons[1] if h.group))
        if kind == b"sh":
            hello = replace(hello, sh_text=_read_sh(channel, rest, deadline))
            return Agent(host, channel, hello, Decoder())
        if kind == b"gone":
            found = startup_files.readers(_read_sh(channel, rest, deadline))
            seen = "the first line that ipexctl sent was gone before Python read it"
            raise startup_files.input_gone(host, seen, "; ".join(found[:2]))
        if kind == b"old":
            raise _OtherBytecode
        # an answer to what was asked ahead may come in one piece with the hello
        decoder = Decoder(LIMIT if ahead else HELLO_LIMIT)
        hello = replace(hello, kind="python", started=started.path if started else "")
        first = Agent(host, channel, hello, decoder)
        agent = _greeted(first, rest, deadline)
        agent._next += len(ahead)
        agent._beside = dict.fromkeys(range(AHEAD + 1, agent._next))
        agent._asked = {number: (one.op, sent) for number, one in enumerate(ahead, AHEAD)}
        trace.add("agent starts", sent, time.monotonic(), host.name)
        agent._shipped, agent._bytecode = shipped, bytecode
        if not (host.local or (channel.round_trip() or 1.0) < NEAR):
            agent.hello = replace(agent.hello, bytecode="")  # it is thrice as long as its source
        return agent
    except BaseException:
        channel.close()
        raise


def _greeted(agent: Agent, rest: bytes, deadline: float) -> Agent:
    """The agent's first frame says which python it is."""
    host, decoder = agent.host, agent._decoder
    try:
        ready = decoder.feed(rest)
        while not ready:
            ready = decoder.feed(_read(agent.channel, host, deadline, agent.hello.started))
    except BadFrame as e:
        raise unreadable(host, str(e), agent.channel) from None
    decoder.limit = LIMIT
    done = Answer(host.name, ready.pop(0).header.get("done"))
    version = done.get("python")
    numbers = [n for n in version if isinstance(n, int)] if isinstance(version, list) else []
    agent.hello = replace(
        agent.hello,
        python=tuple(numbers),
        path=text_of(done.get("path")),
        bytecode=text_of(done.get("bytecode"))[:16],
        received=time.monotonic(),
    )
    agent._ready = ready
    return agent


def _skip_noise(
    channel: Channel, host: Host, marker: bytes, deadline: float
) -> tuple[bytes, bytes, Hung | None]:
    """Everything before the marker is dropped. Returns who speaks, what follows, and the Python
    that was started last."""
    wanted = re.compile(rb"\n" + marker + rb"-(py|sh|gone|old|try [^\n]*)\n")
    seen, dropped = b"", 0
    trying: Hung | None = None
    while dropped < NOISE_LIMIT:
        try:
            seen += _read(channel, host, deadline, trying.path if trying else "", seen)
        except Unreachable:
            if trying:
                raise _Hangs(trying) from None
            raise
        while found := wanted.search(seen):
            seen = seen[found.end() - 1 :]  # its newline may begin the next one
            if not found[1].startswith(b"try "):
                return found[1], seen[1:], trying
            trying = _announced(found[1][4:].decode("utf-8", "replace"))
        noise = max(0, len(seen) - NOISE_TAIL)
        seen, dropped = seen[noise:], dropped + noise
    raise HostFailed(
        f"{host.name}: the login shell printed more than 1 MiB before the command ran",
        hint=f"{login_command.ssh(host, 'true')}   # should print nothing",
        slug="login-shell-noisy",
    )


def _announced(text: str) -> Hung | None:
    """`1234 /usr/bin/python3`: the shell and what it starts. None: not to be passed over."""
    group, _, path = text.partition(" ")
    if (
        not path.startswith("/")
        or not _is_plain(path)
        or not re.fullmatch("[1-9][0-9]{1,8}", group)
    ):
        return None
    return Hung(path, int(group))


def _read(
    channel: Channel, host: Host, deadline: float, trying: str = "", noise: bytes = b""
) -> bytes:
    try:
        data = channel.read(1 << 16, _left(deadline))
    except ChannelTimeout:
        raise Unreachable(
            f"{host.name}: logged in, but commands do not respond in time",
            why=tail(channel),
            hint=f"{login_command.ssh(host, 'true')}   # should return immediately; if not, check "
            f"the shell's start-up files ({startup_files.USUAL}), and ForceCommand in sshd_config",
            slug="login-no-answer",
        ) from None
    if not data and trying:
        status = channel.exit_status(1.0)
        error = HostFailed(
            f"{host.name}: {trying} exited with code {status} without running the command",
            why=_printed(channel)
            or ("it is not a Python, or it is a wrapper that swallows its arguments"),
            hint=login_command.ssh(host, f"{trying} --version")
            + "   # or use another one: --python PATH",
            slug="python-ended",
        )
        raise _Hangs(Hung(trying, 0), error) if status == 0 else error
    if not data:
        raise _not_run(channel, host, noise)
    return data


def _not_run(channel: Channel, host: Host, noise: bytes) -> HostFailed:
    """Which of the causes it is cannot be seen from outside: every command ends in this way."""
    status = channel.exit_status(1.0)
    causes = [f"a start-up file of its shell calls exit or exec ({startup_files.USUAL})"]
    if status:  # what stands in for a shell fails: nologin and false exit with code 1
        causes += ["its login shell runs no commands (nologin)"]
    forced = "sshd runs another command instead (ForceCommand in sshd_config, command= in "
    causes += [f"or {forced}authorized_keys)"]
    said = " ".join((noise.decode("utf-8", "replace")[-200:] + tail(channel)).split())
    return HostFailed(
        f"{host.name}: logged in, but the session ended with exit code {status} "
        "before the command ran",
        why=(f"it printed: {said}; " if said else "") + f"likely {', '.join(causes)}",
        hint=f"{login_command.ssh(host)}   # and there: grep -nwE 'exit|exec' ~/.bashrc ~/.zshenv; "
        "sudo sshd -T | grep -i forcecommand",
        slug="session-ended",
    )


def _printed(channel: Channel) -> str:
    said = tail(channel)
    return f"it printed: {said}" if said else ""


def _read_sh(channel: Channel, rest: bytes, deadline: float) -> str:
    """What plain sh prints, up to its last line; what is not there in time is left out."""
    with suppress(ChannelTimeout):
        while not rest[-99:].rstrip().endswith(b":end") and len(rest) < SH_LIMIT:
            data = channel.read(1 << 16, _left(deadline))
            if not data:
                break
            rest += data
    return rest.decode("utf-8", "replace")


def _left(deadline: float) -> float:
    """A host that drips bytes for ever must not stretch its time."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise ChannelTimeout
    return left
