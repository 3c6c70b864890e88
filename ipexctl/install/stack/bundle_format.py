"""A bundle's format: a plain tar in which every byte of every header is known beforehand.

First `ipexctl.lock`, then `blobs/SHA256` for each of its files, in the lock's order, then the end.
No member says anything that the lock does not: reading compares headers with those that we would
have written, so links, devices, modes, strange names and other sizes need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ipexctl.base.blob import Blob
from ipexctl.install.stack.lock_file import Lock, Package
from ipexctl.quick_dataclass import dataclass

BLOCK = 512
LOCK_MEMBER = "ipexctl.lock"
LARGEST_LOCK = 4 << 20
LARGEST_MEMBER = 8 << 30  # what the eleven octal digits of a header can say
END = bytes(2 * BLOCK)

_KINDS = {
    "1": "a hard link", "2": "a symbolic link", "3": "a device", "4": "a device", "5": "a folder",
    "6": "a pipe", "S": "a sparse file",
}  # fmt: skip


class BadBundle(ValueError):
    """What is wrong with it."""


@dataclass(frozen=True)
class Member:
    name: str
    size: int


def blobs(lock: Lock) -> tuple[Blob, ...]:
    """Every file once, in the lock's order."""
    return tuple({p.sha256: p.blob for p in lock.files}.values())


def member(blob: Blob) -> Member:
    return Member(f"blobs/{blob.sha256}", blob.size)


def padding(size: int) -> bytes:
    return bytes(-size % BLOCK)


def header(member: Member) -> bytes:
    """A ustar header by hand: tarfile's differ between Pythons, and same lock means same bytes."""
    if not 0 <= member.size < LARGEST_MEMBER:
        raise BadBundle(f"{member.name} has {member.size} bytes, more than a bundle can hold")
    name, size = member.name.encode("ascii").ljust(100, b"\0"), f"{member.size:011o}\0".encode()
    before = name + b"0000644\0" + b"0000000\0" * 2 + size + b"0" * 11 + b"\0"
    after = b"0" + bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\0" * 2 + bytes(167)
    checksum = sum(before) + sum(b" " * 8) + sum(after)
    return before + f"{checksum:06o}\0 ".encode() + after


def lock_size(found: bytes) -> int:
    """Of the lock that a bundle must begin with."""
    digits = found[124:135]
    size = int(digits, 8) if digits.isdigit() and not set(digits) & set(b"89") else 0
    if found != header(Member(LOCK_MEMBER, size)):
        raise BadBundle(f"it does not begin with {LOCK_MEMBER} as ipexctl writes it")
    if size > LARGEST_LOCK:
        raise BadBundle(f"its {LOCK_MEMBER} has {size} bytes")
    return size


def check(found: bytes, wanted: Member, known: Sequence[Member]) -> None:
    """Raises BadBundle in words of what came instead."""
    if found != header(wanted):
        raise BadBundle(_what_came(found, wanted, {m.name for m in known}))


def _what_came(found: bytes, wanted: Member, known: set[str]) -> str:
    if len(found) < BLOCK or not any(found):
        return f"it ends before {wanted.name}"
    name = found[:100].rstrip(b"\0").decode("utf-8", "replace")
    shown = f"its member {name[:100]!r}"
    kind = chr(found[156])
    if found[257:262] != b"ustar":
        return f"there is no member where {wanted.name} should begin"
    if kind in _KINDS:
        return f"{shown} is {_KINDS[kind]}"
    if name.startswith("/") or ".." in name.split("/"):
        return f"{shown} would leave its folder"
    if name != wanted.name:
        why = "is duplicated or out of order" if name in known else "is not in its lock"
        return f"{shown} {why}"
    if found[124:136] != header(wanted)[124:136]:
        return f"{shown} does not have the {wanted.size} bytes that its lock states"
    return f"{shown} has a mode, an owner or a type that ipexctl never writes"


def differences(own: Lock, other: Lock) -> Iterator[str]:
    """What `other` has that `own` has not; sizes that nobody knew yet don't count."""
    for name in ("row", "torch", "mpi", "python", "platform", "requirements", "constraints"):
        if getattr(own, name) != getattr(other, name):
            yield f"{name} {_said(getattr(other, name))} instead of {_said(getattr(own, name))}"
    ours, theirs = _by_role(own), _by_role(other)
    for role in sorted(ours.keys() | theirs.keys()):
        if role not in theirs:
            yield f"it lacks {role[1]}"
        elif role not in ours:
            yield f"it has {role[1]} {theirs[role].version}"
        elif not _same(ours[role], theirs[role]):
            yield f"it has another {theirs[role].file}"


def _said(value: str | Sequence[str]) -> str:
    return repr(value) if isinstance(value, str) else ", ".join(value) or "none"


def _by_role(lock: Lock) -> dict[tuple[str, str], Package]:
    """A package that calls itself uv is not the uv that builds."""
    tools = {
        ("tool", "uv"): lock.uv,
        **({("tool", "CPython"): lock.cpython} if lock.cpython else {}),
    }
    return {**{("package", p.name): p for p in lock.packages}, **tools}


def with_sizes(own: Lock, other: Lock) -> Lock:
    """`own`, and the sizes of its files from a lock that does not differ."""
    sizes = {p.sha256: p.size for p in other.files}

    def sized(package: Package) -> Package:
        return replace(package, size=sizes[package.sha256])

    return replace(
        own,
        packages=tuple(map(sized, own.packages)),
        uv=sized(own.uv),
        cpython=sized(own.cpython) if own.cpython else None,
    )


def _same(own: Package, other: Package) -> bool:
    return (own.name, own.version, own.file, own.sha256, own.size or other.size) == (
        other.name, other.version, other.file, other.sha256, other.size,
    )  # fmt: skip
