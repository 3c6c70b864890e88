"""Host keys: what the known_hosts files say about a key, and the errors for one not in them.

The files are read as OpenSSH reads them: hashed names, `[host]:port`, wildcards, negation, comma
lists and `@revoked`. A host with a `@cert-authority` line is reached by the ssh program.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import hmac
import os
import shlex
import threading
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path

from ipexctl.base.host_outcome import HostDown
from ipexctl.base.place import Place
from ipexctl.common.tolerant_reads import read_text
from ipexctl.errors import HostKeyChanged, HostKeyUnknown, NotHere, reason_of
from ipexctl.inventory.nodeset import compile_wildcard
from ipexctl.local.user_dirs import make_private, state_dir
from ipexctl.machines.openssh.ssh_config import Me, SshSettings, expand_path
from ipexctl.quick_dataclass import dataclass

_HASH_MAGIC = "|1|"


@dataclass(frozen=True)
class KnownHostsEntry:
    """One line of a known_hosts file."""

    names: tuple[str, ...]
    key_type: str
    key: bytes
    marker: str  # "", "@revoked" or "@cert-authority"
    place: Place


class Standing(Enum):
    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class KeyVerdict:
    """What the files say about a key, and the lines that say so."""

    standing: Standing
    lines: tuple[KnownHostsEntry, ...] = ()


def parse_known_hosts(text: str, source: str) -> tuple[KnownHostsEntry, ...]:
    """Return every readable line; others are ignored, as OpenSSH does."""
    parsed = (
        _parse_line(line, Place(source, number, 1))
        for number, line in enumerate(text.split("\n"), 1)
    )
    return tuple(entry for entry in parsed if entry)


def lookup_names(host: str, port: int, alias: str = "") -> tuple[str, ...]:
    """Return the names to look a host up by, the best first."""
    if alias:
        return (alias.lower(),)
    host = host.lower()
    return (host,) if port == 22 else (f"[{host}]:{port}", host)


def key_fingerprint(blob: bytes) -> str:
    """Return the fingerprint that `ssh-keygen -l` prints."""
    digest = hashlib.sha256(blob).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def entry_line(name: str, key_type: str, blob: bytes) -> str:
    return f"{name} {key_type} {base64.b64encode(blob).decode('ascii')}\n"


class KnownHosts:
    """All files together. Plain names are in a dictionary, patterns and hashes are searched."""

    def __init__(self, entries: Iterable[KnownHostsEntry]) -> None:
        self._plain: dict[str, list[KnownHostsEntry]] = {}
        self._others: list[KnownHostsEntry] = []
        for entry in entries:
            if any(_is_pattern(name) for name in entry.names):
                self._others.append(entry)
                continue
            for name in entry.names:
                self._plain.setdefault(name.lower(), []).append(entry)

    def find(self, name: str) -> list[KnownHostsEntry]:
        """Return every line about this name, including those of certificate authorities."""
        return self._plain.get(name, []) + [e for e in self._others if names_match(e.names, name)]

    def types(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the key types on record, so that the host can be asked for one of them."""
        types = (entry.key_type for name in names for entry in self.find(name) if not entry.marker)
        return tuple(dict.fromkeys(types))

    def has_authority(self, names: Sequence[str]) -> bool:
        """Decide whether a line accepts certificates for this host, which needs the ssh program."""
        entries = (entry for name in names for entry in self.find(name))
        return any(entry.marker == "@cert-authority" for entry in entries)

    def judge(self, names: Sequence[str], key_type: str, blob: bytes) -> KeyVerdict:
        """Judge a key; names after the first (see lookup_names) can only confirm or revoke it."""
        verdict = KeyVerdict(Standing.UNKNOWN)
        for name in reversed(names):
            judged = self._judge_under_name(name, key_type, blob)
            if judged.standing is Standing.REVOKED:
                return judged
            if name == names[0] and judged.standing is not Standing.UNKNOWN:
                return judged
            if judged.standing is Standing.KNOWN:
                verdict = judged
        return verdict

    def _judge_under_name(self, name: str, key_type: str, blob: bytes) -> KeyVerdict:
        """Judge a key by the lines about one name."""
        lines = self.find(name)
        matching = [line for line in lines if line.key == blob]
        revoked = tuple(line for line in matching if line.marker == "@revoked")
        if revoked:
            return KeyVerdict(Standing.REVOKED, revoked)
        known = tuple(line for line in matching if not line.marker)
        if known:
            return KeyVerdict(Standing.KNOWN, known)
        different = tuple(line for line in lines if not line.marker)
        # A host that suddenly has no key of the type on record is as suspicious as another key.
        same_type = tuple(line for line in different if line.key_type == key_type)
        if different:
            return KeyVerdict(Standing.CHANGED, same_type or different)
        return KeyVerdict(Standing.UNKNOWN)


def names_match(patterns: Sequence[str], name: str) -> bool:
    """Match a line's host field against a name: some pattern fits and no `!pattern` does."""
    fit = [p for p in patterns if _pattern_fits(p.removeprefix("!"), name.lower())]
    return bool(fit) and not any(p.startswith("!") for p in fit)


def _pattern_fits(pattern: str, name: str) -> bool:
    if pattern.startswith(_HASH_MAGIC):
        return _hash_fits(pattern, name)
    if "*" in pattern or "?" in pattern:
        return bool(compile_wildcard(pattern.lower()).fullmatch(name))
    return pattern.lower() == name


def _hash_fits(pattern: str, name: str) -> bool:
    salt, _, digest = pattern[len(_HASH_MAGIC) :].partition("|")
    try:
        stored = base64.b64decode(digest, validate=True)
        computed = hmac.digest(base64.b64decode(salt, validate=True), name.encode(), "sha1")
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(stored, computed)


def _is_pattern(name: str) -> bool:
    return name.startswith(("!", "|")) or "*" in name or "?" in name


def _parse_line(line: str, place: Place) -> KnownHostsEntry | None:
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if marker not in ("", "@revoked", "@cert-authority") or len(words) < 3:
        return None
    names, key_type = words[:2]
    try:
        key = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    return KnownHostsEntry(tuple(n for n in names.split(",") if n), key_type, key, marker, place)


# --- the files -----------------------------------------------------------------------------------


def own_known_hosts() -> Path:
    """Return the file to which `ipexctl trust` writes."""
    return state_dir() / "known_hosts"


@dataclass(frozen=True)
class HostKey:
    """The key a host showed, and what the known_hosts files say about it."""

    answer: SshSettings
    names: tuple[str, ...]
    key_type: str
    blob: bytes
    verdict: KeyVerdict

    @property
    def fingerprint(self) -> str:
        return key_fingerprint(self.blob)


class KnownFiles:
    """The files, read once for all hosts for which ssh would use the same ones."""

    def __init__(self, me: Me) -> None:
        self._me = me
        self._sets: dict[tuple[str, ...], KnownHosts] = {}
        self._lock = threading.Lock()

    def for_host(self, answer: SshSettings) -> KnownHosts:
        """Return the keys of the files that ssh would use for this host, and of ours."""
        names = (*answer.user_known_hosts, *answer.global_known_hosts)
        paths = (
            *(expand_path(name, answer, self._me) for name in names if name != "none"),
            str(own_known_hosts()),
        )
        with self._lock:
            if paths not in self._sets:
                self._sets[paths] = KnownHosts(
                    entry for path in paths for entry in _read_entries(path)
                )
            return self._sets[paths]


def _read_entries(path: str) -> tuple[KnownHostsEntry, ...]:
    return parse_known_hosts(read_text(path), path)  # a missing file has no keys


def remember_key(key: HostKey) -> None:
    """Add the key to our own known_hosts file, which other commands may extend at the same time. An
    incomplete line, left by a full disk or a power cut, is ignored, and the new one starts on a
    line of its own."""
    path = own_known_hosts()
    line = entry_line(key.names[0], key.key_type, key.blob).encode("ascii")
    try:
        make_private(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b", buffering=0) as file:
            prefix = b"" if file.read().endswith(b"\n") or not file.tell() else b"\n"
            if file.write(prefix + line) < len(prefix + line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
    except OSError as e:
        raise NotHere(
            f"cannot save the host key of {key.answer.name} in {path}",
            why=reason_of(e),
            hint="free disk space, then run the command again",
            slug="host-key-not-saved",
        ) from None


def require_known_key(key: HostKey) -> None:
    """Raise HostKeyUnknown or HostKeyChanged unless known_hosts has this key."""
    standing = key.verdict.standing
    if standing is Standing.UNKNOWN:
        raise HostKeyUnknown(
            f"{key.answer.name}: its host key is not trusted yet",
            why=f"{key.key_type} {key.fingerprint}",
            hint=f"ipexctl trust -H {key.answer.name}",
        )
    if standing is Standing.REVOKED:
        raise HostKeyChanged(
            f"{key.answer.name}: its host key is revoked",
            why=f"{key.key_type} {key.fingerprint} is revoked in {_place_of(key.verdict.lines[0])}",
            hint="give the host a new key, or ask whoever revoked this one",
            slug="host-key-revoked",
        )
    if standing is Standing.CHANGED:
        raise key_changed_error(key)


def verdict_down(key: HostKey) -> HostDown | None:
    """Return the outcome of a host whose key is always refused, else None."""
    try:
        require_known_key(key)
    except HostKeyChanged as e:
        return HostDown.of(key.answer.name, e)
    except HostKeyUnknown:
        pass
    return None


def key_changed_error(key: HostKey) -> HostKeyChanged:
    lines = key.verdict.lines
    old = ", ".join(f"{e.key_type} {key_fingerprint(e.key)} in {_place_of(e)}" for e in lines)
    commands = dict.fromkeys(
        shlex.join(("ssh-keygen", "-R", key.names[0], "-f", e.place.source)) for e in lines
    )
    return HostKeyChanged(
        f"{key.answer.name}: its host key has changed",
        why=f"now {key.key_type} {key.fingerprint}; on record {old}\n"
        "either the host was set up again, or someone is intercepting the connection",
        hint="\n".join(commands) + "   # only when you know why it changed",
        slug="host-key-changed",
    )


def _place_of(line: KnownHostsEntry) -> str:
    return f"{line.place.source}:{line.place.line}"
