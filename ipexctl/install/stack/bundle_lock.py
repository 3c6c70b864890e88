"""A bundle's lock: which files it has, and whether it is the lock in the folder."""

from __future__ import annotations

from dataclasses import replace

from ipexctl.base.blob import Blob
from ipexctl.install.stack.lock_file import Lock, Package


def blobs(lock: Lock) -> tuple[Blob, ...]:
    """Every file once, in the lock's order."""
    return tuple({p.sha256: p.blob for p in lock.files}.values())


def is_same(own: Lock, other: Lock) -> bool:
    """Do both choose the same, and name the same files? Sizes may not be known yet."""
    return _without_sizes(own) == _without_sizes(other)


def _without_sizes(lock: Lock) -> Lock:
    def plain(package: Package) -> Package:
        return replace(package, size=0, index="")

    return replace(
        lock,
        packages=tuple(map(plain, lock.packages)),
        uv=plain(lock.uv),
        cpython=plain(lock.cpython) if lock.cpython else None,
        requirement_files=(),
    )


def with_sizes(own: Lock, other: Lock) -> Lock:
    """`own`, and the sizes of its files from a lock that does not differ."""
    sizes = {p.sha256: p.size for p in other.files}

    def sized(package: Package) -> Package:
        return replace(package, size=package.size or sizes[package.sha256])

    return replace(
        own,
        packages=tuple(map(sized, own.packages)),
        uv=sized(own.uv),
        cpython=sized(own.cpython) if own.cpython else None,
    )
