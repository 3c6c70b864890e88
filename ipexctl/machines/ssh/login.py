"""Login: private keys, the agent, the password of --ask-pass, and the errors of all of them."""

from __future__ import annotations

import base64
import contextlib
import copy
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ipexctl.errors import Unreachable
from ipexctl.local.environment import environment
from ipexctl.machines.openssh import login_command
from ipexctl.machines.openssh.ssh_config import DEFAULTS, Me, SshSettings, expand_path
from ipexctl.machines.ssh.link import SshLink, seconds_left
from ipexctl.machines.ssh.secrets import Secrets
from ipexctl.quick_dataclass import dataclass

CERTIFICATE = b"-cert-v01@openssh.com"  # the end of its type
AGENT_TIMEOUT = 30.0  # the user may have to touch a hardware key


@dataclass(frozen=True)
class _Candidate:
    """A key to try. `key` is Paramiko's, or our own around the agent's."""

    label: str
    key: Any


@dataclass(frozen=True)
class LoginCandidates:
    keys: tuple[_Candidate, ...]
    skipped: tuple[str, ...]  # why other keys are not tried
    locked: tuple[str, ...] = ()  # files whose passphrase is not known yet
    hardware: tuple[str, ...] = ()  # files of keys that a FIDO device holds


_Asked = tuple[tuple[str, ...], tuple[str, ...], bool, str]


class KeyRing:
    """The private keys: each is parsed once, and the agent is asked once, for all hosts."""

    def __init__(self, me: Me, secrets: Secrets) -> None:
        self._me = me
        self._secrets = secrets
        self._defaults = {expand_path(path, DEFAULTS, me) for path in DEFAULTS.identity_files}
        self._opened: dict[str, Any] = {}
        self._found: dict[_Asked, LoginCandidates] = {}
        self._lock = threading.Lock()

    def candidates(self, answer: SshSettings) -> LoginCandidates:
        question = (
            tuple(expand_path(path, answer, self._me) for path in answer.identity_files),
            tuple(expand_path(path, answer, self._me) for path in answer.certificate_files),
            answer.identities_only,
            self._agent_path(answer),
        )
        with self._lock:
            if question not in self._found:
                self._found[question] = self._collect_keys(*question)
            return self._found[question]

    def unlock(self, answers: Sequence[SshSettings]) -> None:
        """Ask for passphrases, each once: those of keys that ssh_config names, or of all if no
        other login is possible. A key in the agent needs none."""
        for answer in answers:
            login = self.candidates(answer)
            sole = not login.keys and not self._secrets.ask_pass
            for path in login.locked:
                if path not in self._defaults or sole:
                    key = self._secrets.open(path, _key_with(path))
                    if key:
                        self._opened[path] = key
                        self._found.clear()

    def hardware_key(self, answer: SshSettings) -> str:
        """Return a key on a FIDO device that ssh_config names, or that is the only key; else ""."""
        login = self.candidates(answer)
        sole = not login.keys and not login.locked
        return next((path for path in login.hardware if sole or path not in self._defaults), "")

    def _agent_path(self, answer: SshSettings) -> str:
        agent = answer.identity_agent
        if agent.lower() == "none":
            return ""
        if agent in ("", "SSH_AUTH_SOCK"):
            return self._me.env.get("SSH_AUTH_SOCK", "")
        if agent.startswith("$"):
            return self._me.env.get(agent[1:].strip("{}"), "")
        return expand_path(agent, answer, self._me)

    def _collect_keys(
        self, files: tuple[str, ...], certificates: tuple[str, ...], only: bool, agent: str
    ) -> LoginCandidates:
        """Collect keys in ssh's order: sshd closes the connection after a few keys (MaxAuthTries),
        so keys in the agent go before keys that are only in files."""
        agent_keys, skipped = _agent_keys(agent)
        named: list[_Candidate] = []  # by ssh_config, and in the agent
        file_only: list[_Candidate] = []  # in a file only
        locked: list[str] = []
        hardware: list[str] = []
        for path in files:
            if path == "none":
                continue
            key, reason = (self._opened[path], "") if path in self._opened else _load_key(path)
            blob = key.asbytes() if key else _public_blob(path)
            in_agent = [k for k in agent_keys if blob and _is_for(k.asbytes(), blob)]
            agent_keys = [k for k in agent_keys if k not in in_agent]
            for usable in [key] if key else in_agent:
                kind = named if in_agent else file_only
                kind += _with_certificates(path, usable, (f"{path}-cert.pub", *certificates))
            if reason and not key and not in_agent:
                skipped.append(reason)
                if blob[4:7] == b"sk-":
                    hardware.append(path)
                elif "ssh-add" in reason:
                    locked.append(path)
        for agent_key in [] if only else agent_keys:
            named += _with_certificates(f"agent: {agent_key.comment}", agent_key, certificates)
        rank = {path: number for number, path in enumerate(certificates)}
        keys = sorted([*named, *file_only], key=lambda c: rank.get(c.label, len(rank)))
        paths = [path for path in files if path != "none"]
        if paths and not keys and not skipped:
            skipped.append(f"no such key file: {', '.join(paths)}")
        return LoginCandidates(tuple(keys), tuple(skipped), tuple(locked), tuple(hardware))


class _AgentKey:
    """A key that stays in the agent. Requests are serialized: all hosts share the connection."""

    public_blob: Any = None

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


def _agent_keys(path: str) -> tuple[list[_AgentKey], list[str]]:
    """Return the agent's keys, and a message if it cannot be asked."""
    from paramiko import SSHException
    from paramiko.agent import AgentSSH

    if not path:
        return [], []
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(AGENT_TIMEOUT)
    agent: Any = AgentSSH()
    try:
        sock.connect(path)
        agent._connect(sock)
    except (OSError, SSHException) as e:
        sock.close()
        return [], [f"the agent at {path} does not answer ({e})"]
    lock = threading.Lock()
    return [_AgentKey(key, lock) for key in agent.get_keys()], []


def _load_key(path: str) -> tuple[Any, str]:
    """Return the key, or None and the reason; a missing default file needs no reason."""
    import paramiko

    try:
        mode = Path(path).stat().st_mode
        if mode & 0o077 and Path(path).stat().st_uid == os.getuid():
            return None, f"{path} can be read by others, so ssh would refuse it (chmod 600 {path})"
        return paramiko.PKey.from_path(path), ""
    except FileNotFoundError:
        return None, ""
    except (TypeError, paramiko.PasswordRequiredException):
        return None, f"{path} has a passphrase and is not in the agent (ssh-add {path})"
    except Exception as e:  # the parsers may raise anything about a broken file
        return None, f"{path} cannot be read ({e or type(e).__name__})"


def _key_with(path: str) -> Callable[[bytes], Any]:
    """Return a function that opens the key file with a passphrase; None if it is wrong."""
    import paramiko

    def load(passphrase: bytes) -> Any:
        with contextlib.suppress(Exception):  # each key format reports a wrong one differently
            secret: Any = passphrase
            return paramiko.PKey.from_path(path, secret)
        return None

    return load


def _with_certificates(label: str, key: Any, files: tuple[str, ...]) -> list[_Candidate]:
    """Put a key's certificates first, as ssh does; the host may accept the bare key as well."""
    bare = copy.copy(key)
    bare.public_blob = None
    candidates = []
    for path in dict.fromkeys(files):
        blob = _public_blob(path)
        if _is_certificate_of(bare.asbytes(), blob):
            certified = copy.copy(key)
            certified.public_blob = _certificate_of(blob)
            candidates.append(_Candidate(path, certified))
    return [*candidates, _Candidate(label, bare)]


def _is_for(shown: bytes, key: bytes) -> bool:
    return shown == key or _is_certificate_of(key, shown)


def _is_certificate_of(key: bytes, blob: bytes) -> bool:
    """Compare the key with the fields that follow a certificate's type and nonce."""
    from paramiko import Message

    bare, certificate = Message(key), Message(blob)
    bare.get_binary()
    kind = certificate.get_binary()
    certificate.get_binary()
    fields = bare.get_remainder()
    return CERTIFICATE in kind and fields != b"" and certificate.get_remainder().startswith(fields)


def _certificate_of(blob: bytes) -> Any:
    from paramiko import Message
    from paramiko.pkey import PublicBlob

    return PublicBlob.from_message(Message(blob))


def _public_blob(path: str) -> bytes:
    try:
        words = Path(path.removesuffix(".pub") + ".pub").read_text("utf-8").split()
        return base64.b64decode(words[1])
    except (OSError, ValueError, IndexError):
        return b""


def authenticate(
    link: SshLink, candidates: LoginCandidates, deadline: float, password: str | None
) -> None:
    """Try every key in turn, then the password the user gave, until one is accepted."""
    login = _Login(link, deadline)
    waiting = list(candidates.keys)
    while waiting and login.may_accept("publickey"):
        candidate = waiting.pop(0)
        login.attempt(candidate.label, link.transport.auth_publickey, candidate.key)
    untried = [key.label for key in waiting] + ["the password"] * (password is not None)
    if untried and login.tried and not link.transport.is_active():
        raise _hung_up(login, untried)
    if password is not None:
        if login.may_accept("password"):
            no_fallback = partial(link.transport.auth_password, fallback=False)
            login.attempt("the password", no_fallback, password)
        if "password" not in login.allowed and "keyboard-interactive" in login.allowed:
            handler = _password_prompt(password)
            login.attempt("the password, when asked", link.transport.auth_interactive, handler)
    if not login.done:
        raise _auth_failed(login, candidates.skipped, with_password=password is not None)


class _Login:
    """The login attempts on one connection, and the host's answers."""

    def __init__(self, link: SshLink, deadline: float) -> None:
        self.link, self.deadline = link, deadline
        self.tried: list[str] = []
        self.allowed: list[str] = []
        self.error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.link.transport.is_authenticated()

    def may_accept(self, method: str) -> bool:
        """Decide whether the method is worth trying; the first refusal lists the host's methods."""
        if self.done or not self.link.transport.is_active():
            return False
        return not self.allowed or method in self.allowed

    def attempt(self, label: str, method: Callable[[str, Any], list[str]], credential: Any) -> None:
        import paramiko

        self.tried.append(label)
        self.link.transport.auth_timeout = seconds_left(self.deadline)
        try:
            self.allowed = method(self.link.answer.user, credential)  # further methods, if any
        except (paramiko.SSHException, EOFError, OSError) as e:
            self.error = e
            self.allowed = list(getattr(e, "allowed_types", self.allowed))
        if not self.done and self.link.transport.is_active() and time.monotonic() >= self.deadline:
            raise _auth_timeout(self.link.answer, label)


def _password_prompt(password: str) -> Callable[[str, str, list[tuple[str, bool]]], list[str]]:
    """Answer one hidden prompt with the password; a host that asks for more is refused."""
    from paramiko import SSHException

    answered: list[str] = []

    def answer(title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        if not prompts:
            return []
        if answered or len(prompts) > 1 or prompts[0][1]:
            raise SSHException(f"the host asks for more than a password: {prompts[0][0]}")
        answered.append("once")
        return [password]

    return answer


def _auth_failed(login: _Login, skipped: tuple[str, ...], *, with_password: bool) -> Unreachable:
    answer, error = login.link.answer, login.error
    why = [f"tried: {', '.join(login.tried)}" if login.tried else "there is no key to try"]
    why += skipped
    if login.allowed:
        why.append(f"the host accepts: {', '.join(login.allowed)}")
    elif error and ("disconnect" in str(error).lower() or "more than a password" in str(error)):
        why.append(str(error))
    if environment().get("SLURM_JOB_ID"):
        why.append("this is a Slurm job: on some clusters srun reaches its nodes and SSH does not")
    way = _other_way_in(login, skipped, with_password=with_password)
    error = Unreachable(
        f"{answer.name}: cannot log in as {answer.user}",
        why="\n".join(why),
        hint=way or _copy_key_hint(login, has_keys=bool(login.tried or skipped)),
        slug="login-failed",
    )
    if way or not answer.given.user or not answer.usual_user:
        return error
    return error.with_meant(f"{answer.given.user}@{answer.given.name}", answer.given.name)


def _hung_up(login: _Login, untried: Sequence[str]) -> Unreachable:
    answer, count = login.link.answer, len(login.tried)
    keys = f"{count} {'key' if count == 1 else 'keys'}"
    return Unreachable(
        f"{answer.name}: the host closed the connection after {keys}",
        why=f"tried: {', '.join(login.tried)}\nnot tried: {', '.join(untried)}\n"
        "sshd accepts at most MaxAuthTries keys per connection",
        hint=f"in ssh_config, under Host {login_command.ssh_hostname(answer.given)}: "
        "IdentitiesOnly yes, and IdentityFile THE-RIGHT-KEY",
        slug="login-hung-up",
    )


def _other_way_in(login: _Login, skipped: tuple[str, ...], *, with_password: bool) -> str:
    """Return what lets the user in without another key on the host; "" if nothing does."""
    locked = [word for word in skipped if "ssh-add" in word]
    if locked:
        return "ssh-add " + locked[0].split()[0]
    methods = {"password", "keyboard-interactive"}
    if login.allowed and "publickey" not in login.allowed and methods & set(login.allowed):
        ssh_hint = "--transport openssh, after ssh -M has logged in"
        return ssh_hint if with_password else "--ask-pass"
    return ""


def _copy_key_hint(login: _Login, *, has_keys: bool) -> str:
    """Return the command that brings the key to the host. sshd does not say whether there is such
    an account, and a user that was typed may have none."""
    answer = login.link.answer
    key = next((label for label in login.tried if os.path.isfile(f"{label}.pub")), "")
    copy = login_command.copy_id(answer.given, answer.user, key)
    copy = copy if has_keys else f"ssh-keygen -t ed25519 && {copy}"  # ssh-copy-id needs a key
    if not answer.given.user:
        return copy
    if answer.usual_user:
        return f"does {answer.name} have an account {answer.user}? if so: {copy}"
    return f"{copy}   # if {answer.name} has an account {answer.user}"


def _auth_timeout(answer: SshSettings, label: str) -> Unreachable:
    return Unreachable(
        f"{answer.name}: the host did not answer the login as {answer.user} in time",
        why=f"sshd is checking the key {label}; it may be waiting for a directory, DNS or PAM "
        "service",
        hint=login_command.ssh_debug_command(answer.given),
        slug="login-timeout",
    )
