"""Logging in: the private keys, the agent, and what went wrong. Never a password."""

from __future__ import annotations

import base64
import copy
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipexctl.core.ssh_config import Answer, Me, expand
from ipexctl.errors import Unreachable
from ipexctl.hosts.ssh.link import Link, left

AGENT_TIMEOUT = 30.0  # somebody may have to touch a hardware key


@dataclass(frozen=True)
class _Candidate:
    """A key to try. `key` is Paramiko's, or our own around the agent's."""

    label: str
    key: Any


@dataclass(frozen=True)
class Candidates:
    keys: tuple[_Candidate, ...]
    skipped: tuple[str, ...]  # why other keys are not tried


class KeyRing:
    """Private keys are parsed once, and the agent is asked once, for all hosts together."""

    def __init__(self, me: Me) -> None:
        self._me = me
        self._found: dict[tuple[tuple[str, ...], bool, str], Candidates] = {}
        self._lock = threading.Lock()

    def candidates(self, answer: Answer) -> Candidates:
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

    def _collect(self, files: tuple[str, ...], only: bool, agent: str) -> Candidates:
        held, skipped = _agent_keys(agent)
        keys: list[_Candidate] = []
        for path in files:
            if path == "none":
                continue
            key, reason = _load_key(path)
            blob = key.asbytes() if key else _public_blob(path)
            in_agent = held.pop(blob, None) if blob else None
            if key:
                keys += _with_certificate(path, key)
            elif in_agent:
                keys.append(_Candidate(path, in_agent))
            elif reason:
                skipped.append(reason)
        if not only:
            keys += [_Candidate(f"agent: {k.comment}", k) for k in held.values()]
        return Candidates(tuple(keys), tuple(skipped))


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


def _with_certificate(path: str, key: Any) -> list[_Candidate]:
    """The certificate beside the key first, as ssh does; the host may know the bare key as well."""
    if key.public_blob is None:
        return [_Candidate(path, key)]
    bare = copy.copy(key)
    bare.public_blob = None
    return [_Candidate(f"{path}-cert.pub", key), _Candidate(path, bare)]


def _public_blob(path: str) -> bytes:
    try:
        words = Path(path.removesuffix(".pub") + ".pub").read_text("utf-8").split()
        return base64.b64decode(words[1])
    except (OSError, ValueError, IndexError):
        return b""


def authenticate(link: Link, candidates: Candidates, deadline: float) -> None:
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
            in_time = done.wait(left(deadline))
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
