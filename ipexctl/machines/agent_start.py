"""Start an agent: send parts of remote/ to the stdin of a channel and wait for their hello.

The login shell gets one line (no quotes inside, no newline: csh and fish read it as well). It tries
the pythons it finds; the first that is new enough reads a boot line from stdin, then the compressed
sources. Its stdout is ignored up to a random marker: banners and noisy start-up files do no harm.
Without a usable python the same line prints what plain sh can find out, after the same marker. A
Python that hangs, or ends without output, costs a second channel, whose line checks that a Python
answers before it gives it our input.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ipexctl import trace
from ipexctl.base import quoting
from ipexctl.base.host_answer import Answer
from ipexctl.common.frames import encode_frame
from ipexctl.errors import HostFailed, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines import agent_sources
from ipexctl.machines.agent import Agent, Hello, invalid_reply, stderr_tail, text_of
from ipexctl.machines.openssh import login_command, startup_files
from ipexctl.machines.wire.frames import LIMIT, BadFrame, Decoder
from ipexctl.machines.wire.transport import Channel, ChannelTimeout, Transport
from ipexctl.quick_dataclass import dataclass

NOISE_LIMIT = 1 << 20
NOISE_TAIL = 1 << 13  # bytes of it kept: the marker with a Python's path may arrive in two pieces
HELLO_LIMIT = 1 << 16
SH_LIMIT = 8 << 20  # a /proc/cpuinfo of a thousand CPUs is 2 MiB
OLD_PYTHON, BOOT_FAILED, INPUT_GONE, ANSWERS = 97, 98, 96, 95
# our code has read stdin, or a signal meant us; with any other, the interpreter itself did not run
_ENDS = f"0|{BOOT_FAILED}|129|130|137|141|143"
# remote/facts/probe.py searches the same places. The shell expands ~ and *.
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
# No quotes of either kind. The boot line begins with `s=`.
_BOOT = (
    f"import sys;sys.version_info<(3,6) and sys.exit({OLD_PYTHON});import os,json,zlib;"
    "sys.excepthook=lambda *e:(sys.__excepthook__(*e),sys.stderr.flush(),"
    f"os._exit({BOOT_FAILED}));l=sys.stdin.buffer.readline();"
    f"l[:2]==bytes((115,61)) or sys.exit({INPUT_GONE});exec(l)"
)
# KILL also ends what a wrapper has started: it is sent to the group that `timeout` creates.
_ASK = (
    f'timeout -s KILL 3 "$p" -ISc "import sys;sys.exit({ANSWERS})" </dev/null >/dev/null 2>&1; '
    f"[ $? = {ANSWERS} ] || continue; "
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
class _Started:
    """What was started as Python, and the process group of its shell."""

    path: str
    group: int


class _NoAnswer(HostFailed):
    """A Python that hangs in the process group `group`, or, with 0, ended without an error."""

    group = 0


def command_line(marker: str, python: str = "", *, after: _NoAnswer | None = None) -> str:
    """Return the line for the login shell. `python` is tried first if the user named one.

    Each one is announced before it starts. Those that failed are left as $1 $2, $3 $4: exit status
    and path. `after`: a Python that gave no answer is ended first, and only those that answer are
    started.
    """
    if python and not _is_plain(python):
        raise HostFailed(
            f"the path of Python, {python!r}, contains special characters", slug="bad-python-path"
        )
    end, ask, start, facts = "", "", f'"$p" -ISc "{_BOOT}"', _SH_FACTS
    if after:
        # the time of a login is counted from the start of the shell that runs our Python
        ask, start, facts = _ASK, f"({start}; exit $?)", "exit 1"
        end = f"kill -9 -{after.group} 2>/dev/null; " if after.group else ""
    script = (
        f'{end}for p in {python} {PYTHONS}; do p=$(command -v "$p" 2>/dev/null) || continue; {ask}'
        f'echo; echo $0-try $$ "$p"; {start}; r=$?; '
        f"case $r in {INPUT_GONE}) echo; echo $0-gone; {startup_files.FIND_READERS}; exit $r;; "
        f'{_ENDS}) exit $r;; esac; set -- "$@" $r "$p"; done; {facts}'
    )
    return quoting.quote(("exec", "/bin/sh", "-c", script, marker))


def _is_plain(path: str) -> bool:
    return all(char.isalnum() or char in "/._-+" for char in path)


NEAR = 0.003  # round trip in seconds up to which a host gets bytecode: sending bytes to it is cheap
AHEAD = 1  # the number of the first request that is sent along with the agent


@dataclass(frozen=True)
class Ahead:
    """A request for an operation. `fork`: the operation for which the agent forks before it has
    threads; `also`: operations whose modules that process imports by name. `sent` is called when
    it is on its way."""

    op: str
    args: Mapping[str, Any]
    fork: str = ""
    also: tuple[str, ...] = ()
    sent: Callable[[], None] | None = None

    @property
    def ops(self) -> tuple[str, ...]:
        return (self.op, self.fork, *self.also) if self.fork else (self.op,)

    def encode_frames(self, number: int) -> bytes:
        fork = encode_frame({"id": 0, "fork": self.fork}) if self.fork else b""
        return fork + encode_frame({**self.args, "id": number, "op": self.op})


def start_host_agent(
    transport: Transport,
    host: Host,
    *,
    timeout: float = 20.0,
    python: str = "",
    ahead: Sequence[Ahead] = (),
    bytecode: bool = False,
) -> Agent:
    """Open one channel, run one command, send the agent and wait for its hello.

    The requests `ahead` are sent along, so that their answers come a round trip earlier:
    `agent.wait(AHEAD)`, then the next numbers. A Python with an unexpected bytecode format gets the
    sources over a new channel. After one that gave no answer the next one is tried over a new
    channel.
    """
    bytecode = bytecode and bool(agent_sources.compiled_modules())
    python = python or host.python
    try:
        return _start_on_channel(transport, host, timeout, python, ahead, bytecode=bytecode)
    except _OtherBytecode:
        return _start_on_channel(transport, host, timeout, python, ahead, bytecode=False)
    except _NoAnswer as e:
        try:
            return _start_on_channel(
                transport, host, timeout, python, ahead, bytecode=False, after=e
            )
        except (HostFailed, Unreachable):
            raise e from None


class _OtherBytecode(Exception):
    pass


def _start_on_channel(
    transport: Transport,
    host: Host,
    timeout: float,
    python: str,
    ahead: Sequence[Ahead],
    *,
    bytecode: bool,
    after: _NoAnswer | None = None,
) -> Agent:
    """Start the agent over a new channel, which is closed on any error."""
    deadline = time.monotonic() + timeout
    marker = "ipexctl" + secrets.token_hex(12)
    ops = [op for request in ahead for op in request.ops]
    shipped = frozenset[str]().union(*map(agent_sources.modules_for_op, ops))
    frames = b"".join(request.encode_frames(number) for number, request in enumerate(ahead, AHEAD))
    channel = transport.open(host, command_line(marker, python, after=after), timeout)
    try:
        sent = time.monotonic()
        with suppress(OSError):  # without python stdin is not read; sh's output is still there
            payload = agent_sources.boot_payload(marker, shipped, bytecode=bytecode)
            channel.write(payload + frames)
        for request in ahead:
            if request.sent:
                request.sent()
        kind, rest, started = _skip_noise(channel, host, marker.encode(), deadline)
        hello = Hello("sh", sent=sent, passed=after.what if after else "")
        if kind == b"sh":
            hello = replace(hello, sh_text=_read_sh(channel, rest, deadline))
            return Agent(host, channel, hello, Decoder())
        if kind == b"gone":
            readers = startup_files.stdin_readers(_read_sh(channel, rest, deadline))
            evidence = "the first line that ipexctl sent was gone before Python read it"
            raise startup_files.input_gone(host, evidence, "; ".join(readers[:2]))
        if kind == b"old":
            raise _OtherBytecode
        # answers to requests sent ahead may arrive in one piece with the hello
        decoder = Decoder(LIMIT if ahead else HELLO_LIMIT)
        hello = replace(hello, kind="python", started=started.path if started else "")
        first = Agent(host, channel, hello, decoder)
        agent = _read_hello(first, rest, deadline, started)
        agent._next += len(ahead)
        agent._beside = dict.fromkeys(range(AHEAD + 1, agent._next))
        agent._asked = {number: (request.op, sent) for number, request in enumerate(ahead, AHEAD)}
        trace.add("agent starts", sent, time.monotonic(), host.name)
        agent._shipped, agent._bytecode = shipped, bytecode
        if not (host.local or (channel.round_trip() or 1.0) < NEAR):
            agent.hello = replace(agent.hello, bytecode="")  # three times as long as the source
        return agent
    except BaseException:
        channel.close()
        raise


def _read_hello(agent: Agent, rest: bytes, deadline: float, started: _Started | None) -> Agent:
    """Read the agent's first frame, which says which python it is."""
    host, decoder = agent.host, agent._decoder
    try:
        ready = decoder.feed(rest)
        while not ready:
            ready = decoder.feed(_read_channel(agent.channel, host, deadline, started))
    except BadFrame as e:
        raise invalid_reply(host, str(e), agent.channel) from None
    decoder.limit = LIMIT
    answer = Answer(host.name, ready.pop(0).header.get("done"))
    version = answer.get("python")
    numbers = [n for n in version if isinstance(n, int)] if isinstance(version, list) else []
    agent.hello = replace(
        agent.hello,
        python=tuple(numbers),
        path=text_of(answer.get("path")),
        bytecode=text_of(answer.get("bytecode"))[:16],
    )
    agent._ready = ready
    return agent


def _skip_noise(
    channel: Channel, host: Host, marker: bytes, deadline: float
) -> tuple[bytes, bytes, _Started | None]:
    """Drop everything before the marker. Returns what answered (py, sh, ...), the bytes after the
    marker, and the Python that was started last."""
    pattern = re.compile(rb"\n" + marker + rb"-(py|sh|gone|old|try [^\n]*)\n")
    buffer, dropped = b"", 0
    trying: _Started | None = None
    while dropped < NOISE_LIMIT:
        buffer += _read_channel(channel, host, deadline, trying, buffer)
        while match := pattern.search(buffer):
            buffer = buffer[match.end() - 1 :]  # its newline may begin the next one
            if not match[1].startswith(b"try "):
                return match[1], buffer[1:], trying
            trying = _parse_started(match[1][4:].decode("utf-8", "replace"))
        noise = max(0, len(buffer) - NOISE_TAIL)
        buffer, dropped = buffer[noise:], dropped + noise
    raise HostFailed(
        f"{host.name}: the login shell printed more than 1 MiB before the command ran",
        hint=f"{login_command.ssh_to(host, 'true')}   # should print nothing",
        slug="login-shell-noisy",
    )


def _parse_started(text: str) -> _Started | None:
    """Parse `1234 /usr/bin/python3`; None for anything else."""
    group, _, path = text.partition(" ")
    if not re.fullmatch("[0-9]{1,9}", group, re.ASCII) or not path.startswith("/"):
        return None
    return _Started(path, int(group)) if int(group) > 1 and _is_plain(path) else None


def _read_channel(
    channel: Channel,
    host: Host,
    deadline: float,
    trying: _Started | None = None,
    noise: bytes = b"",
) -> bytes:
    try:
        data = channel.read(1 << 16, _seconds_left(deadline))
    except ChannelTimeout:
        if trying:
            raise _hanging_python_error(channel, host, trying) from None
        raise Unreachable(
            f"{host.name}: logged in, but commands do not respond in time",
            why=stderr_tail(channel),
            hint=f"{login_command.ssh_to(host, 'true')}   # should return immediately; if not, "
            f"check the shell's start-up files ({startup_files.USUAL}), "
            "and ForceCommand in sshd_config",
            slug="login-no-answer",
        ) from None
    if not data:
        raise (
            _ended_early_error(channel, host, trying.path)
            if trying
            else _not_run(channel, host, noise)
        )
    return data


def _hanging_python_error(channel: Channel, host: Host, trying: _Started) -> _NoAnswer:
    error = _NoAnswer(
        f"{host.name}: {trying.path} was started and did not respond in time",
        why=stderr_tail(channel),
        hint=login_command.ssh_to(host, f"{trying.path} -c 1") + _ANOTHER,
        slug="python-no-answer",
    )
    error.group = trying.group
    return error


def _ended_early_error(channel: Channel, host: Host, path: str) -> HostFailed:
    status, output = channel.exit_status(1.0), stderr_tail(channel)
    kind = _NoAnswer if status == 0 else HostFailed
    return kind(
        f"{host.name}: {path} exited with code {status} without running the command",
        why=f"it printed: {output}" if output else "it is not a Python that runs what it is given",
        hint=login_command.ssh_to(host, f"{path} --version") + _ANOTHER,
        slug="python-ended",
    )


def _not_run(channel: Channel, host: Host, noise: bytes) -> HostFailed:
    """Return the error for a shell that ran no command; the causes look alike from outside."""
    status = channel.exit_status(1.0)
    causes = [f"a start-up file of its shell calls exit or exec ({startup_files.USUAL})"]
    if status:  # what replaces a shell fails: nologin and false exit with code 1
        causes += ["its login shell runs no commands (nologin)"]
    forced = "sshd runs another command instead (ForceCommand in sshd_config, command= in "
    causes += [f"or {forced}authorized_keys)"]
    output = " ".join((noise.decode("utf-8", "replace")[-200:] + stderr_tail(channel)).split())
    return HostFailed(
        f"{host.name}: logged in, but the session ended with exit code {status} "
        "before the command ran",
        why=(f"it printed: {output}; " if output else "") + f"likely {', '.join(causes)}",
        hint=f"{login_command.ssh_to(host)}   # and there: grep -nwE 'exit|exec' ~/.bashrc "
        "~/.zshenv; sudo sshd -T | grep -i forcecommand",
        slug="session-ended",
    )


def _read_sh(channel: Channel, rest: bytes, deadline: float) -> str:
    """Read what plain sh prints, up to its last line or the deadline."""
    with suppress(ChannelTimeout):
        while not rest[-99:].rstrip().endswith(b":end") and len(rest) < SH_LIMIT:
            data = channel.read(1 << 16, _seconds_left(deadline))
            if not data:
                break
            rest += data
    return rest.decode("utf-8", "replace")


def _seconds_left(deadline: float) -> float:
    """Return the seconds left, which also limits a host that keeps sending single bytes."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise ChannelTimeout
    return seconds
