"""Hosts over SSH, by Paramiko (the library under Fabric); nothing else imports either.

One TCP connection and one session per `open`. The host's key is judged by our own reading of
known_hosts before a byte of ours about the user is sent. docs/decisions/0003-ssh.md has the reasons.
"""

from __future__ import annotations

import atexit
import base64
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipexctl.core.known_hosts import KnownHosts, lookup_names
from ipexctl.core.model import Host
from ipexctl.core.ssh_config import Answer, Me, expand, parse_jump
from ipexctl.errors import HostKeyChanged, HostKeyUnknown, Unreachable
from ipexctl.hosts.dial import Dropped, Wire, dial, dial_command, read_banner
from ipexctl.hosts.host_keys import HostKey, KnownFiles, accept
from ipexctl.hosts.ssh_config import SshConfig
from ipexctl.hosts.transport import Channel, ChannelTimeout

if TYPE_CHECKING:
    import paramiko

IDLE_WAKEUP = 10.0  # how often an idle connection's thread looks around
STDERR_KEPT = 1 << 16
CHUNK = 32_000  # fits one SSH packet
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.5
MAX_JUMPS = 8
AGENT_TIMEOUT = 30.0  # somebody may have to touch a hardware key


class SshTransport:
    """`hosts` are resolved at once, so that a broken ssh_config is reported before any work."""

    def __init__(self, hosts: tuple[Host, ...], config_file: Path | None = None) -> None:
        _silence()
        self._config = SshConfig(config_file)
        self._answers = self._config.answers(hosts)
        self._known = KnownFiles(self._config.me)
        self._keys = _KeyRing(self._config.me)
        self._links: set[_Link] = set()
        self._jumps: dict[tuple[str, ...], _Jump] = {}
        self._lock = threading.Lock()
        atexit.register(self.close)  # before Paramiko's own, which waits for every thread

    def open(self, host: Host, command: str, timeout: float) -> Channel:
        deadline = time.monotonic() + timeout
        link = self._login(self._answer(host), deadline)
        try:
            return SshChannel(host, link, _execute(host, link, command, deadline))
        except BaseException:
            link.close()
            raise

    def host_key(self, host: Host, timeout: float) -> HostKey:
        """Key exchange only: what the host shows to anybody who asks. Its jump hosts are passed."""
        deadline = time.monotonic() + timeout
        link = self._greet(self._answer(host), deadline)
        try:
            return self._judge(link)
        finally:
            link.close()

    def jump_hosts(self, host: Host) -> tuple[Host, ...]:
        """The machines on the way to the host, the nearest first."""
        hops = self._answer(host).proxy_jump
        return tuple(Host(name, user=user, port=port) for name, user, port in map(parse_jump, hops))

    def close(self) -> None:
        atexit.unregister(self.close)
        with self._lock:
            links, self._links = list(self._links), set()
        for link in links:
            link.close()
        deadline = time.monotonic() + 2.0
        for link in links:
            link.transport.join(max(0.0, deadline - time.monotonic()))

    # --- the way to a host -----------------------------------------------------------------------

    def _answer(self, host: Host) -> Answer:
        with self._lock:
            if host not in self._answers:
                self._answers.update(self._config.answers([host]))
            return self._answers[host]

    def _login(self, answer: Answer, deadline: float, via: tuple[str, ...] = ()) -> _Link:
        link = self._greet(answer, deadline, via)
        try:
            accept(self._judge(link))
            _authenticate(link, self._keys.candidates(answer), deadline)
        except BaseException:
            link.close()
            raise
        return link

    def _greet(self, answer: Answer, deadline: float, via: tuple[str, ...] = ()) -> _Link:
        """A connection with its keys exchanged. sshd drops some of many at once: try those again."""
        pause = FIRST_PAUSE
        while True:
            try:
                wire = self._wire(answer, deadline, via)
                return self._exchange_keys(answer, wire, deadline)
            except Dropped as e:
                rest = pause * random.uniform(0.5, 1.5)
                if time.monotonic() + rest >= deadline:
                    raise _dropped(answer, str(e)) from None
            time.sleep(rest)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _wire(self, answer: Answer, deadline: float, via: tuple[str, ...]) -> Wire:
        hops = via or answer.proxy_jump
        if hops:
            wire = self._through(answer, hops, deadline)
        elif answer.proxy_command:
            wire = dial_command(expand(answer.proxy_command, answer, self._config.me))
        else:
            wire = dial(answer, deadline)
        try:
            read_banner(wire, answer, deadline)
        except BaseException:
            wire.close()
            raise
        return wire

    def _through(self, answer: Answer, hops: tuple[str, ...], deadline: float) -> Wire:
        """A channel of the last jump host, which is shared by all hosts behind it."""
        import paramiko

        jump = self._jump(answer, hops, deadline)
        left = max(0.05, deadline - time.monotonic())
        target = (answer.hostname, answer.port)
        try:
            channel = jump.transport.open_channel(
                "direct-tcpip", target, ("127.0.0.1", 0), timeout=left
            )
        except (paramiko.SSHException, EOFError, OSError) as e:
            raise Unreachable(
                f"{answer.name}: the jump host {hops[-1]} cannot reach {target[0]}:{target[1]}",
                why=str(e),
                hint=f"ssh -J {','.join(hops)} {answer.name}",
            ) from None
        return Wire(channel)

    def _jump(self, answer: Answer, hops: tuple[str, ...], deadline: float) -> _Link:
        if len(hops) > MAX_JUMPS:
            raise Unreachable(f"{answer.name}: ProxyJump goes in circles", why=" -> ".join(hops))
        with self._lock:
            jump = self._jumps.setdefault(hops, _Jump())
        with jump.lock:
            if jump.error:
                raise jump.error.about(answer.name)
            if jump.link is None or not jump.link.transport.is_active():
                jump.link = self._open_jump(answer, hops, deadline, jump)
            return jump.link

    def _open_jump(
        self, answer: Answer, hops: tuple[str, ...], deadline: float, jump: _Jump
    ) -> _Link:
        """The last of `hops`; the ones before it are its own jump hosts."""
        name, user, port = parse_jump(hops[-1])
        hop = self._answer(Host(name, user=user, port=port))
        before = hops[:-1]
        if not before and hop.proxy_jump:
            before = hop.proxy_jump
            if hops[0] in before:
                before = ()
        try:
            return self._login(hop, deadline, before)
        except Unreachable as e:
            jump.error = _JumpError(hops[-1], e)
            raise jump.error.about(answer.name) from None

    # --- one connection --------------------------------------------------------------------------

    def _exchange_keys(self, answer: Answer, wire: Wire, deadline: float) -> _Link:
        names = lookup_names(answer.hostname, answer.port, answer.host_key_alias)
        known = self._known.for_host(answer)
        transport = _new_transport(wire, known.types(names))
        link = _Link(answer, transport, wire, names, known)
        with self._lock:
            self._links.add(link)
        link.on_close = self._forget
        done = threading.Event()
        transport.start_client(event=done)
        if done.wait(max(0.05, deadline - time.monotonic())) and transport.is_active():
            return link
        error = transport.get_exception()
        link.close()
        raise _no_exchange(answer, error)

    def _forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)

    def _judge(self, link: _Link) -> HostKey:
        key = link.transport.get_remote_server_key()
        blob = key.asbytes()
        verdict = self._known.revoked(link.answer, blob) or link.known.judge(
            link.names, key.get_name(), blob
        )
        return HostKey(link.answer, link.names, key.get_name(), blob, verdict)


# --- one link ------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Link:
    """A Paramiko transport, and what it stands on."""

    answer: Answer
    transport: paramiko.Transport
    wire: Wire
    names: tuple[str, ...]
    known: KnownHosts
    on_close: Callable[[_Link], None] = lambda link: None

    def close(self) -> None:
        """Returns at once; Paramiko's thread sees the end of the socket and cleans up itself."""
        self.wire.close()
        self.on_close(self)


@dataclass
class _JumpError:
    hop: str
    error: Unreachable

    def about(self, name: str) -> Unreachable:
        if isinstance(self.error, HostKeyUnknown | HostKeyChanged):
            return self.error  # to be told once, by its own name
        why = f"{self.error.what}\n{self.error.why}".strip()
        return Unreachable(
            f"{name}: the way through {self.hop} is closed", why=why, hint=self.error.hint
        )


@dataclass
class _Jump:
    """One jump host for everybody; one failure for everybody too."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    link: _Link | None = None
    error: _JumpError | None = None


def _silence() -> None:
    """Paramiko logs tracebacks of ordinary network trouble; we say it in our own words."""
    logger = logging.getLogger("paramiko")
    logger.propagate = False
    logger.setLevel(logging.CRITICAL + 1)


@cache
def _packetizer() -> Any:
    import paramiko.packet

    class Packetizer(paramiko.packet.Packetizer):
        """Without the thread that Paramiko starts per connection as an alarm: we have deadlines."""

        def start_handshake(self, timeout: float) -> None:
            return None

        def complete_handshake(self) -> None:
            return None

    return Packetizer


def _new_transport(wire: Wire, known_types: Sequence[str]) -> paramiko.Transport:
    import paramiko

    transport: Any = paramiko.Transport(wire, packetizer_class=_packetizer())
    wire.settimeout(IDLE_WAKEUP)
    transport._preferred_keys = _known_first(transport._preferred_keys, known_types)
    transport._preferred_ciphers = _first(
        transport._preferred_ciphers, ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
    )
    return transport  # type: ignore[no-any-return]


def _known_first(algorithms: Sequence[str], known_types: Sequence[str]) -> tuple[str, ...]:
    """The host shall show the key we know, not another of its keys (OpenSSH does the same)."""
    wanted = {"rsa-sha2" if t == "ssh-rsa" else t for t in known_types}
    return _first(algorithms, [a for a in algorithms if a in wanted or a[:8] in wanted])


def _first(algorithms: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Only the order changes: what isn't offered by the library is never asked for."""
    front = [a for a in wanted if a in algorithms]
    return (*front, *(a for a in algorithms if a not in front))


def _execute(host: Host, link: _Link, command: str, deadline: float) -> paramiko.Channel:
    import paramiko

    try:
        left = max(0.05, deadline - time.monotonic())
        channel = link.transport.open_session(timeout=left)
        channel.in_stderr_buffer = _Tail(channel)  # before the command can write any
        if _request_exec(channel, command, deadline):
            return channel
        why = "sshd refused" if channel.closed else "sshd did not answer the request"
    except (paramiko.SSHException, EOFError, OSError) as e:
        why = str(e) or type(e).__name__
    raise Unreachable(
        f"{host.name}: logged in, but the host runs no command for us",
        why=why,
        hint=f"ssh {host.name} true   # must end with exit code 0",
    )


def _request_exec(channel: Any, command: str, deadline: float) -> bool:
    """Channel.exec_command, but with a deadline."""
    from paramiko.common import cMSG_CHANNEL_REQUEST
    from paramiko.message import Message

    message = Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(True)
    message.add_string(command)
    channel._event_pending()
    channel.transport._send_user_message(message)
    channel.event.wait(max(0.05, deadline - time.monotonic()))
    return bool(channel.event_ready)


class _Tail:
    """Takes a channel's stderr as it comes and keeps its end, so that it never fills the window."""

    def __init__(self, channel: Any) -> None:
        self.data = b""
        self._channel = channel
        self._owed = 0

    def feed(self, data: bytes) -> None:
        """Runs in Paramiko's thread, which must not wait for a key exchange that it drives itself."""
        self.data = (self.data + data)[-STDERR_KEPT:]
        self._owed += len(data)
        if self._channel.transport.clear_to_send.is_set():
            grant, self._owed = self._channel._check_add_window(self._owed), 0
            if grant:
                _grant_window(self._channel, grant)

    def close(self) -> None:
        return None


def _grant_window(channel: Any, size: int) -> None:
    from paramiko.common import cMSG_CHANNEL_WINDOW_ADJUST
    from paramiko.message import Message

    message = Message()
    message.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
    message.add_int(channel.remote_chanid)
    message.add_int(size)
    channel.transport._send_user_message(message)


class SshChannel:
    """Channel (see transport.py) on one session."""

    def __init__(self, host: Host, link: _Link, channel: Any) -> None:
        self._host, self._link, self._channel = host, link, channel
        self._ready = threading.Event()
        channel.in_buffer.set_event(self._ready)

    def write(self, data: bytes) -> None:
        from paramiko import SSHException

        for start in range(0, len(data), CHUNK):
            chunk = data[start : start + CHUNK]
            while chunk:
                try:
                    sent = self._channel.send(chunk)
                except (SSHException, EOFError) as e:
                    raise OSError(str(e)) from None
                if not sent:
                    raise OSError(f"{self._host.name} reads no more")
                chunk = chunk[sent:]

    def read(self, size: int, timeout: float | None = None) -> bytes:
        if not self._ready.wait(timeout):
            raise ChannelTimeout
        return bytes(self._channel.recv(size))

    def stderr(self) -> bytes:
        return bytes(self._channel.in_stderr_buffer.data)

    def exit_status(self, timeout: float) -> int | None:
        self._channel.status_event.wait(timeout)
        status = self._channel.exit_status
        return None if status < 0 else int(status)

    def close(self) -> None:
        from paramiko import SSHException

        try:
            self._channel.close()
        except (SSHException, OSError, EOFError):
            pass  # the connection went first
        self._link.close()


# --- who we are ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Candidate:
    """A key to try. `key` is Paramiko's, or our own around the agent's."""

    label: str
    key: Any


@dataclass(frozen=True)
class _Candidates:
    keys: tuple[_Candidate, ...]
    skipped: tuple[str, ...]  # why other keys are not tried


class _KeyRing:
    """Private keys are parsed once, and the agent is asked once, for all hosts together."""

    def __init__(self, me: Me) -> None:
        self._me = me
        self._found: dict[tuple[tuple[str, ...], bool, str], _Candidates] = {}
        self._lock = threading.Lock()

    def candidates(self, answer: Answer) -> _Candidates:
        files = tuple(expand(path, answer, self._me) for path in answer.identity_files)
        agent = self._agent_path(answer)
        key = (files, answer.identities_only, agent)
        with self._lock:
            if key not in self._found:
                self._found[key] = self._collect(files, answer.identities_only, agent)
            return self._found[key]

    def _agent_path(self, answer: Answer) -> str:
        named = answer.identity_agent
        if named.lower() == "none":
            return ""
        if named in ("", "SSH_AUTH_SOCK"):
            return self._me.env.get("SSH_AUTH_SOCK", "")
        if named.startswith("$"):
            return self._me.env.get(named[1:].strip("{}"), "")
        return expand(named, answer, self._me)

    def _collect(self, files: tuple[str, ...], only: bool, agent: str) -> _Candidates:
        held, skipped = _agent_keys(agent)
        keys: list[_Candidate] = []
        for path in files:
            if path == "none":
                continue
            key, reason = _load_key(path)
            blob = key.asbytes() if key else _public_blob(path)
            in_agent = held.pop(blob, None) if blob else None
            if key or in_agent:
                keys.append(_Candidate(path, key or in_agent))
            elif reason:
                skipped.append(reason)
        if not only:
            keys += [_Candidate(f"agent: {k.comment}", k) for k in held.values()]
        return _Candidates(tuple(keys), tuple(skipped))


class _AgentKey:
    """A key that stays in the agent. One conversation at a time, since all hosts share the line."""

    public_blob = None

    def __init__(self, key: Any, lock: threading.Lock) -> None:
        self.comment = key.comment
        self._key, self._lock = key, lock

    def get_name(self) -> str:
        return str(self._key.name)

    def asbytes(self) -> bytes:
        return bytes(self._key.blob)

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> Any:
        with self._lock:
            return self._key.sign_ssh_data(data, algorithm)


def _agent_keys(path: str) -> tuple[dict[bytes, _AgentKey], list[str]]:
    """The agent's keys by their public half, and a word if it can't be asked."""
    from paramiko import SSHException
    from paramiko.agent import AgentSSH

    if not path:
        return {}, []
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(AGENT_TIMEOUT)
    agent: Any = AgentSSH()
    try:
        line.connect(path)
        agent._connect(line)
    except (OSError, SSHException) as e:
        line.close()
        return {}, [f"the agent at {path} does not answer ({e})"]
    lock = threading.Lock()
    return {bytes(k.blob): _AgentKey(k, lock) for k in agent.get_keys()}, []


def _load_key(path: str) -> tuple[Any, str]:
    """The key, or None and why not; a default file that isn't there needs no word."""
    import paramiko

    try:
        mode = Path(path).stat().st_mode
        if mode & 0o077 and Path(path).stat().st_uid == os.getuid():
            return None, f"{path} can be read by others, so ssh would not use it (chmod 600 {path})"
        return paramiko.PKey.from_path(path), ""
    except FileNotFoundError:
        return None, ""
    except (TypeError, paramiko.PasswordRequiredException):
        return None, f"{path} has a passphrase and is not in the agent (ssh-add {path})"
    except Exception as e:  # the parsers below raise whatever they like about a broken file
        return None, f"{path} cannot be read ({e or type(e).__name__})"


def _public_blob(path: str) -> bytes:
    try:
        words = Path(path.removesuffix(".pub") + ".pub").read_text("utf-8").split()
        return base64.b64decode(words[1])
    except (OSError, ValueError, IndexError):
        return b""


def _authenticate(link: _Link, candidates: _Candidates, deadline: float) -> None:
    """Every key in turn, until one is taken."""
    import paramiko

    tried: list[str] = []
    allowed: list[str] = []
    error: Exception | None = None
    for candidate in candidates.keys:
        tried.append(candidate.label)
        done = threading.Event()
        try:
            link.transport.auth_publickey(link.answer.user, candidate.key, event=done)
            in_time = done.wait(max(0.05, deadline - time.monotonic()))
        except (paramiko.SSHException, EOFError, OSError) as e:
            error, in_time = e, True
        if link.transport.is_authenticated():
            return
        if not in_time:
            raise _auth_timeout(link.answer, candidate.label)
        error = link.transport.get_exception() or error
        allowed = list(getattr(error, "allowed_types", allowed))
        if not link.transport.is_active() or (allowed and "publickey" not in allowed):
            break
    raise _auth_failed(link.answer, tried, candidates.skipped, allowed, error)


# --- words ---------------------------------------------------------------------------------------


def _auth_failed(
    answer: Answer,
    tried: list[str],
    skipped: tuple[str, ...],
    allowed: list[str],
    error: Exception | None,
) -> Unreachable:
    why = [f"keys tried: {', '.join(tried)}" if tried else "there is no key to try"]
    why += skipped
    if allowed:
        why.append(f"the host takes: {', '.join(allowed)}")
    elif error and "disconnect" in str(error).lower():
        why.append(str(error))
    hint = f"ssh-copy-id {answer.user}@{answer.name}"
    locked = [word for word in skipped if "ssh-add" in word]
    if locked:
        hint = "ssh-add " + locked[0].split()[0]
    return Unreachable(
        f"{answer.name}: the login as {answer.user} failed", why="\n".join(why), hint=hint
    )


def _auth_timeout(answer: Answer, label: str) -> Unreachable:
    return Unreachable(
        f"{answer.name}: the login as {answer.user} was not answered in time",
        why=f"sshd looks at the key {label}; it may wait for a directory, DNS or PAM service",
        hint=f"ssh -v {answer.name} true",
    )


def _no_exchange(answer: Answer, error: Exception | None) -> Exception:
    import paramiko

    if error is None:
        return Unreachable(
            f"{answer.name}: the SSH key exchange was not finished in time",
            why="the host is overloaded, or a firewall lets only small packets pass (MTU)",
            hint=f"ssh -v {answer.name} true",
        )
    if isinstance(error, EOFError | ConnectionError):
        return Dropped(str(error))
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return Unreachable(
            f"{answer.name}: the host and ipexctl know no common SSH algorithm",
            why=str(error),
            hint="update the host's OpenSSH, or this machine's paramiko",
        )
    return Unreachable(f"{answer.name}: the SSH key exchange failed", why=str(error))


def _dropped(answer: Answer, said: str) -> Unreachable:
    return Unreachable(
        f"{answer.name}: the host closes the connection before the SSH handshake",
        why=said or "sshd has too many logins at once (MaxStartups), or refuses this address",
        hint=f"ssh -v {answer.name} true",
    )
