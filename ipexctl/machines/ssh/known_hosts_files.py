"""Host keys: the known_hosts files on disk, and what is said about a key that isn't in them."""

from __future__ import annotations

import base64
import binascii
import errno
import fcntl
import io
import os
import shlex
import threading
import time
from collections.abc import Collection
from pathlib import Path

from ipexctl.base.host_outcome import HostDown
from ipexctl.base.place import Place
from ipexctl.errors import HostKeyChanged, HostKeyUnknown, NotHere, Unreachable, reason_of
from ipexctl.local.atomic_file import sync_folder
from ipexctl.local.user_dirs import make_private, state_dir
from ipexctl.machines.openssh.host_certificates import Certificate, why_invalid
from ipexctl.machines.openssh.known_hosts import (
    Entry,
    KnownHosts,
    Standing,
    Verdict,
    entry_line,
    fingerprint,
    parse_known_hosts,
)
from ipexctl.machines.openssh.ssh_config import Answer, Me, expand
from ipexctl.quick_dataclass import dataclass

_KRL_MAGIC = b"SSHKRL\n\0"


def own_known_hosts() -> Path:
    """Where `ipexctl trust` writes."""
    return state_dir() / "known_hosts"


@dataclass(frozen=True)
class HostKey:
    """The key a host showed, and what the known_hosts files say about it."""

    answer: Answer
    names: tuple[str, ...]
    key_type: str
    blob: bytes
    verdict: Verdict

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.blob)


class KnownFiles:
    """Every file is read once, whoever asks for it."""

    def __init__(self, me: Me) -> None:
        self._me = me
        self._own = str(own_known_hosts())
        self._files: dict[str, tuple[Entry, ...]] = {}
        self._sets: dict[tuple[str, ...], KnownHosts] = {}
        self._lock = threading.Lock()

    def for_host(self, answer: Answer) -> KnownHosts:
        """The files ssh would use for this host, and ours."""
        named = (*answer.user_known_hosts, *answer.global_known_hosts)
        paths = (*(expand(p, answer, self._me) for p in named if p != "none"), self._own)
        with self._lock:
            if paths not in self._sets:
                self._sets[paths] = KnownHosts(e for p in paths for e in self._entries(p))
            return self._sets[paths]

    def revoked(self, answer: Answer, blobs: Collection[bytes]) -> Verdict | None:
        """RevokedHostKeys of ssh_config, when it is a plain list of keys. `blobs`: the host's key,
        and that of who signed it."""
        if not answer.revoked_keys:
            return None
        path = Path(expand(answer.revoked_keys, answer, self._me))
        lines = _revoked_lines(answer, path)
        hits = tuple(line for line in lines if _decode(line.key) in blobs)
        return Verdict(Standing.REVOKED, hits) if hits else None

    def _entries(self, path: str) -> tuple[Entry, ...]:
        if path not in self._files:
            try:
                text = Path(path).read_text("utf-8", "replace")
            except OSError:
                text = ""  # a missing file has no keys
            self._files[path] = parse_known_hosts(text, path)
        return self._files[path]


def judge_certificate(
    answer: Answer, known: KnownHosts, names: tuple[str, ...], cert: Certificate
) -> Verdict:
    """UNKNOWN if no known_hosts line accepts its authority; raises if the certificate is bad."""
    verdict = known.judge_certificate(names, cert.authority, cert.key)
    if verdict.standing is not Standing.KNOWN:
        return verdict
    name = answer.host_key_alias or answer.hostname
    wrong = why_invalid(cert, name, time.time())
    if not wrong and not _signed(cert):
        wrong = "its signature is invalid"
    if wrong:
        raise HostKeyChanged(
            f"{answer.name}: its host certificate is not valid",
            why=f"the certificate {cert.key_id!r}: {wrong}",
            hint="sign it again: ssh-keygen -s CA -h -n NAMES ssh_host_ed25519_key.pub",
            slug="host-certificate-invalid",
        )
    return verdict


def _signed(cert: Certificate) -> bool:
    import paramiko

    try:
        size = int.from_bytes(cert.authority[:4], "big")
        kind = cert.authority[4 : 4 + size].decode("ascii")
        key = paramiko.PKey.from_type_string(kind, cert.authority)
        return bool(key.verify_ssh_sig(cert.signed, paramiko.Message(cert.signature)))
    except Exception:  # the parsers below raise whatever they like about a broken key
        return False


def remember(key: HostKey, path: Path) -> None:
    """Append the key to our own known_hosts file, all of it or nothing."""
    line = entry_line(key.names[0], key.key_type, key.blob).encode("ascii")
    try:
        make_private(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # other ipexctl processes append to it, too
            _append_line(file, line)
        sync_folder(path.parent)
    except OSError as e:
        raise NotHere(
            f"cannot save the host key of {key.answer.name} in {path}",
            why=reason_of(e),
            hint="free disk space, then run the command again",
            slug="host-key-not-saved",
        ) from None


def _append_line(file: io.FileIO, line: bytes) -> None:
    before = os.fstat(file.fileno()).st_size
    if before and os.pread(file.fileno(), 1, before - 1) != b"\n":
        line = b"\n" + line  # end the line that a power cut tore
    try:
        written = file.write(line)
        if written != len(line):
            raise OSError(errno.ENOSPC, f"wrote {written} of {len(line)} bytes")
        os.fsync(file.fileno())
    except OSError:
        file.truncate(before)
        raise


def accept(key: HostKey) -> None:
    """Raises HostKeyUnknown or HostKeyChanged unless known_hosts has this key."""
    standing = key.verdict.standing
    if standing is Standing.UNKNOWN:
        raise HostKeyUnknown(
            f"{key.answer.name}: its host key is not trusted yet",
            why=f"{key.key_type} {key.fingerprint}",
            hint=f"ipexctl trust -H {key.answer.name}",
            fingerprint=key.fingerprint,
            slug="host-key-unknown",
        )
    if standing is Standing.REVOKED:
        raise HostKeyChanged(
            f"{key.answer.name}: its host key is revoked",
            why=f"{key.key_type} {key.fingerprint} is revoked in {_places(key)}",
            hint="give the host a new key, or ask whoever revoked this one",
            slug="host-key-revoked",
        )
    if standing is Standing.CHANGED:
        raise changed(key)


def verdict_down(key: HostKey) -> HostDown | None:
    """A key that is always refused, as a host's outcome."""
    try:
        accept(key)
    except HostKeyChanged as e:
        return HostDown.of(key.answer.name, e)
    except HostKeyUnknown:
        pass
    return None


def changed(key: HostKey) -> HostKeyChanged:
    old = ", ".join(
        f"{e.key_type} {fingerprint(_decode(e.key))} in {_where(e.place)}"
        for e in key.verdict.lines
    )
    commands = dict.fromkeys(
        shlex.join(("ssh-keygen", "-R", key.names[0], "-f", e.place.source))
        for e in key.verdict.lines
    )
    return HostKeyChanged(
        f"{key.answer.name}: its host key has changed",
        why=f"now {key.key_type} {key.fingerprint}; on record {old}\n"
        "either the host was set up again, or someone is intercepting the connection",
        hint="\n".join(commands) + "   # only when you know why it changed",
        slug="host-key-changed",
    )


def _places(key: HostKey) -> str:
    return ", ".join(_where(e.place) for e in key.verdict.lines)


def _where(place: Place) -> str:
    return f"{place.source}:{place.line}"


def _decode(key: str) -> bytes:
    try:
        return base64.b64decode(key)
    except (binascii.Error, ValueError):
        return b""


def _revoked_lines(answer: Answer, path: Path) -> list[Entry]:
    """As OpenSSH, we refuse to go on with a list that can't be read."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise Unreachable(
            f"{answer.name}: RevokedHostKeys of ssh_config cannot be read",
            why=reason_of(e),
            slug="revoked-keys-unreadable",
        ) from None
    if data.startswith(_KRL_MAGIC):
        raise Unreachable(
            f"{answer.name}: RevokedHostKeys {path} is a KRL, which ipexctl cannot read",
            hint="name a plain list of public keys, or write @revoked lines into known_hosts",
            slug="revoked-keys-unreadable",
        )
    rows = enumerate(data.decode("utf-8", "replace").split("\n"), 1)
    words = ((number, row.split()) for number, row in rows)
    return [
        Entry((), row[0], row[1], "@revoked", Place(str(path), number, 1))
        for number, row in words
        if len(row) >= 2 and not row[0].startswith("#")
    ]
