"""A bundle's lock: which files it has, and how it differs from the lock in the folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ipexctl.base.blob import Blob
from ipexctl.install.stack.lock_file import Lock, Package


def blobs(lock: Lock) -> tuple[Blob, ...]:
    """Every file once, in the lock's order."""
    return tuple({p.sha256: p.blob for p in lock.files}.values())


def differences(own: Lock, other: Lock) -> Iterator[str]:
    """What `other` has and `own` lacks; sizes that are not known yet do not count."""
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
