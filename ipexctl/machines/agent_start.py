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
_ANOTHER = "   # or name another one: python=PATH in the hostfile"
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


def command_line(marker: str, python: str = "") -> str:
    """The line for the login shell. `python` is tried first when the user named one.

    Each one is announced before it starts. Those that failed are left as $1 $2, $3 $4: how each
    ended and its path.
    """
    if python and not _is_plain(python):
        raise HostFailed(
            f"the path of Python, {python!r}, contains special characters", slug="bad-python-path"
        )
    script = (
        f'for p in {python} {PYTHONS}; do p=$(command -v "$p" 2>/dev/null) || continue; '
        f'echo; echo $0-try "$p"; "$p" -ISc "{_BOOT}"; r=$?; '
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
    `agent.wait(AHEAD)`, then of the next ones. A Python that has another bytecode than expected
    gets the sources, over a channel of its own.
    """
    bytecode = bytecode and bool(agent_sources.compiled())
    python = python or host.python
    try:
        return _connect(transport, host, timeout, python, ahead, bytecode=bytecode)
    except _OtherBytecode:
        return _connect(transport, host, timeout, python, ahead, bytecode=False)


class _OtherBytecode(Exception):
    pass


def _connect(
    transport: Transport,
    host: Host,
    timeout: float,
    python: str,
    ahead: Sequence[Ahead],
    *,
    bytecode: bool,
) -> Agent:
    deadline = time.monotonic() + timeout
    marker = "ipexctl" + secrets.token_hex(12)
    ops = [op for asked in ahead for op in asked.ops]
    shipped = frozenset[str]().union(*map(agent_sources.needed, ops))
    asked = b"".join(one.encoded(number) for number, one in enumerate(ahead, AHEAD))
    channel = transport.open(host, command_line(marker, python), timeout)
    try:
        sent = time.monotonic()
        with suppress(OSError):  # without python nobody reads stdin; what sh printed is still there
            payload = agent_sources.boot_payload(marker, shipped, bytecode=bytecode)
            channel.write(payload + asked)
        kind, rest, started = _skip_noise(channel, host, marker.encode(), deadline)
        hello = Hello("sh", sent=sent)
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
        hello = replace(hello, kind="python", started=started)
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
    )
    agent._ready = ready
    return agent


def _skip_noise(
    channel: Channel, host: Host, marker: bytes, deadline: float
) -> tuple[bytes, bytes, str]:
    """Everything before the marker is dropped. Returns who speaks, what follows, and the Python
    that was started last."""
    wanted = re.compile(rb"\n" + marker + rb"-(py|sh|gone|old|try [^\n]*)\n")
    seen, dropped, trying = b"", 0, ""
    while dropped < NOISE_LIMIT:
        seen += _read(channel, host, deadline, trying, seen)
        while found := wanted.search(seen):
            seen = seen[found.end() - 1 :]  # its newline may begin the next one
            if not found[1].startswith(b"try "):
                return found[1], seen[1:], trying
            path = found[1][4:].decode("utf-8", "replace")
            trying = path if path.startswith("/") and _is_plain(path) else ""
        noise = max(0, len(seen) - NOISE_TAIL)
        seen, dropped = seen[noise:], dropped + noise
    raise HostFailed(
        f"{host.name}: the login shell printed more than 1 MiB before the command ran",
        hint=f"{login_command.ssh(host, 'true')}   # should print nothing",
        slug="login-shell-noisy",
    )


def _read(
    channel: Channel, host: Host, deadline: float, trying: str = "", noise: bytes = b""
) -> bytes:
    try:
        data = channel.read(1 << 16, _left(deadline))
    except ChannelTimeout:
        if trying:
            raise HostFailed(
                f"{host.name}: {trying} was started and did not respond in time",
                why=tail(channel),
                hint=login_command.ssh(host, f"{trying} -c 1") + _ANOTHER,
                slug="python-no-answer",
            ) from None
        raise Unreachable(
            f"{host.name}: logged in, but commands do not respond in time",
            why=tail(channel),
            hint=f"{login_command.ssh(host, 'true')}   # should return immediately; if not, check "
            f"the shell's start-up files ({startup_files.USUAL}), and ForceCommand in sshd_config",
            slug="login-no-answer",
        ) from None
    if not data and trying:
        raise HostFailed(
            f"{host.name}: {trying} exited with code {channel.exit_status(1.0)} without running "
            "the command",
            why=_printed(channel)
            or ("it is not a Python, or it is a wrapper that swallows its arguments"),
            hint=login_command.ssh(host, f"{trying} --version") + _ANOTHER,
            slug="python-ended",
        )
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
