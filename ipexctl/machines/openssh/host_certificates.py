"""OpenSSH certificates: what one says, and whether it vouches for a host. Signatures are checked
where the keys are (machines/ssh/known_hosts_files.py)."""

from __future__ import annotations

import struct

from ipexctl.quick_dataclass import dataclass

USER, HOST = 1, 2
SUFFIX = "-cert-v01@openssh.com"
# How many fields make up the public key of each type.
_FIELDS = {
    "ssh-ed25519": 1,
    "ssh-rsa": 2,
    "ecdsa-sha2-nistp256": 2,
    "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2,
    "sk-ssh-ed25519": 2,
    "sk-ecdsa-sha2-nistp256": 3,
}


@dataclass(frozen=True)
class Certificate:
    key_type: str  # of the bare key
    key: bytes  # the bare public key
    kind: int
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    has_conditions: bool  # critical options: whoever doesn't know them must refuse
    authority: bytes  # the key that signed
    signed: bytes
    signature: bytes


def parse_certificate(blob: bytes) -> Certificate | None:
    """None for a plain key, and for an incomplete certificate."""
    try:
        return _parse(_Reader(blob), blob)
    except (struct.error, UnicodeDecodeError):
        return None


def why_invalid(cert: Certificate, name: str, now: float) -> str:
    """Why the certificate does not vouch for the host `name`; "" when it does."""
    if cert.kind != HOST:
        return "it is a user's certificate, not a host's"
    if cert.has_conditions:
        return "it has critical options that ipexctl does not support"
    if not cert.valid_after <= now < cert.valid_before:
        return "it has expired" if now >= cert.valid_before else "it is not valid yet"
    if cert.principals and name.lower() not in (p.lower() for p in cert.principals):
        return f"it is for {', '.join(cert.principals[:8])}, not for {name}"
    if _Reader(cert.signature).string() in (b"ssh-rsa", b"ssh-dss"):
        return "it is signed with SHA-1"
    return ""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def string(self) -> bytes:
        size = self.take(">I")
        if self.at + size > len(self.data):
            raise struct.error
        self.at += size
        return self.data[self.at - size : self.at]


def _parse(reader: _Reader, blob: bytes) -> Certificate | None:
    name = reader.string().decode("ascii")
    base = name.removesuffix(SUFFIX)
    if base == name or base not in _FIELDS:
        return None
    plain = base + "@openssh.com" if base.startswith("sk-") else base
    reader.string()  # the nonce
    start = reader.at
    for _ in range(_FIELDS[base]):
        reader.string()
    key = struct.pack(">I", len(plain)) + plain.encode("ascii") + blob[start : reader.at]
    reader.take(">Q")  # the serial number
    kind = reader.take(">I")
    key_id = reader.string().decode("utf-8", "replace")
    principals = _list(reader.string())
    valid_after, valid_before = reader.take(">Q"), reader.take(">Q")
    has_conditions = bool(reader.string())
    reader.string(), reader.string()  # extensions, reserved
    authority = reader.string()
    signed = blob[: reader.at]
    signature = reader.string()
    _Reader(signature).string()
    return Certificate(
        key_type=plain, key=key, kind=kind, key_id=key_id, principals=principals,
        valid_after=valid_after, valid_before=valid_before, has_conditions=has_conditions,
        authority=authority, signed=signed, signature=signature,
    )  # fmt: skip


def _list(packed: bytes) -> tuple[str, ...]:
    reader, found = _Reader(packed), []
    while reader.at < len(packed):
        found.append(reader.string().decode("utf-8", "replace"))
    return tuple(found)
