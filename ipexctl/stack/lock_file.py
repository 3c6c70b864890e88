"""Convert ipexctl.lock, which names exactly the files of an environment, from and to text.

It has no addresses, and no paths outside of the project: the text is the same anywhere, whichever
mirror the files came from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ipexctl.base import toml
from ipexctl.base.blob import Blob
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ipexctl.stack.selection import Stack

SCHEMA = 1
_HEAD = """\
# Made by `ipexctl install`. The same lock gives the same environment, file by file.
# Keep it under version control; delete it to resolve afresh.
"""
_WHEEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl\Z")
_CPYTHON = re.compile(r"cpython-3\.\d{1,3}(\.\d{1,3})?-(x86_64|aarch64)\.tar\.gz\Z")
_PLATFORM = re.compile(r"(\w+)-manylinux_(\d{1,3})_(\d{1,3})")
_SHA = re.compile(r"[0-9a-f]{64}\Z")
# Before 1.13 the default index's torch has CUDA inside the wheel, and needs no nvidia packages.
# PyTorch's CPU builds are +cpu and linux_x86_64; those for aarch64 are always CPU builds.
_CUDA_INSIDE = re.compile(r"torch-(0|1\.(\d|1[0-2]))(\.\d+)*-.*manylinux\w*_x86_64\.whl\Z")


@dataclass(frozen=True)
class LockedPackage:
    """One wheel. `size` 0: unknown, as it was not fetched."""

    name: str
    version: str
    file: str
    sha256: str
    size: int = 0

    @property
    def blob(self) -> Blob:
        return Blob(self.file, self.sha256, self.size)


@dataclass(frozen=True)
class Lock:
    """`packages` make the environment; `uv` is the tool that builds it on the hosts."""

    row: str
    torch: str
    mpi: str
    python: str
    platform: str
    packages: tuple[LockedPackage, ...]
    uv: LockedPackage
    requirements: tuple[str, ...] = ()  # what -r asked for besides the stack
    constraints: tuple[str, ...] = ()
    requirement_files: tuple[str, ...] = ()  # the files that -r named, from the lock's folder
    cpython: LockedPackage | None = None  # copied to the hosts; else their own is used

    @property
    def key(self) -> str:
        """The environment's name on the hosts. It omits uv: another builder builds the same."""
        content = {
            "schema": SCHEMA,
            "python": self.python,
            "platform": self.platform,
            "packages": [[p.name, p.version, p.file, p.sha256] for p in self.packages],
        }
        if self.cpython:
            content["cpython"] = self.cpython.sha256
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def files(self) -> tuple[LockedPackage, ...]:
        return (*self.packages, self.uv, *([self.cpython] if self.cpython else []))

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """Every file once, in the lock's order."""
        return tuple({package.sha256: package.blob for package in self.files}.values())

    def each_file(self, change: Callable[[LockedPackage], LockedPackage]) -> Lock:
        """Return the lock with every file as `change` returns it."""
        cpython = change(self.cpython) if self.cpython else None
        packages = tuple(map(change, self.packages))
        return replace(self, packages=packages, uv=change(self.uv), cpython=cpython)

    def is_same(self, other: Lock) -> bool:
        """Decide whether both choose the same and name the same files; sizes are ignored."""
        return _without_sizes(self) == _without_sizes(other)

    @property
    def requested(self) -> tuple[tuple[str, str], ...]:
        """The name and version of each package that -r asked for and these hosts get."""
        from packaging.requirements import Requirement
        from packaging.utils import canonicalize_name

        names = [canonicalize_name(Requirement(text).name) for text in self.requirements]
        versions = ((name, self.version(name)) for name in dict.fromkeys(names))
        return tuple((name, version) for name, version in versions if version)

    @property
    def size(self) -> int:
        return sum(package.size for package in self.packages)

    @property
    def cuda(self) -> bool:
        """Whether torch is a CUDA build; unknown, so False, for a user's own build."""
        return any(p.name.startswith("nvidia-") or _has_cuda(p) for p in self.packages)

    def version(self, name: str) -> str:
        """Return the locked version of a package, "" if it isn't in the lock."""
        return next((package.version for package in self.packages if package.name == name), "")


def _without_sizes(lock: Lock) -> Lock:
    lock = lock.each_file(lambda package: replace(package, size=0))
    return replace(lock, requirement_files=())


def _has_cuda(package: LockedPackage) -> bool:
    """Detect CUDA: +cuNNN wheels contain it or depend on nvidia packages, by their age."""
    if package.name != "torch":
        return False
    built_for = package.version.partition("+")[2]
    return built_for.startswith("cu") or bool(_CUDA_INSIDE.match(package.file))


def hosts_of(lock: Lock) -> tuple[str, str]:
    """Return (architecture, glibc) of the oldest hosts the lock is for; glibc "" if unknown."""
    match = _PLATFORM.fullmatch(lock.platform)
    return (match[1], f"{match[2]}.{match[3]}") if match else (lock.platform.split("-")[0], "")


def lock_fits(lock: Lock, stack: Stack) -> bool:
    """Decide whether the lock is for this row, torch, MPI and Python, and for hosts no newer."""
    made_for = lock.row, lock.torch, lock.mpi, lock.python
    choice = stack.row.name, stack.row.torch, stack.mpi, stack.python_text
    return made_for == choice and _platform_fits(lock.platform, stack.platform)


def _platform_fits(wheels: str, host: str) -> bool:
    """Decide whether hosts load the wheels: a newer glibc loads what was built for older ones."""
    ours, theirs = _PLATFORM.fullmatch(wheels), _PLATFORM.fullmatch(host)
    if not ours or not theirs or ours[1] != theirs[1]:
        return wheels == host
    return (int(ours[2]), int(ours[3])) <= (int(theirs[2]), int(theirs[3]))


def render_lock(lock: Lock) -> str:
    lines = [_HEAD, f"schema = {SCHEMA}", "", "[stack]"]
    names = ("row", "torch", "mpi", "python", "platform")
    lines += [f"{name} = {_toml_text(getattr(lock, name))}" for name in names]
    for name in ("requirements", "constraints", "requirement_files"):
        lines += _list_lines(name, getattr(lock, name))
    lines += ["", "[uv]", *_package_lines(lock.uv)]
    lines += ["", "[cpython]", *_package_lines(lock.cpython)] if lock.cpython else []
    for package in sorted(lock.packages, key=lambda wheel: wheel.name):
        lines += ["", "[[package]]", *_package_lines(package)]
    return "\n".join(lines) + "\n"


def _package_lines(package: LockedPackage) -> list[str]:
    names = ("name", "version", "file", "sha256")
    lines = [f"{name} = {_toml_text(getattr(package, name))}" for name in names]
    return [*lines, f"size = {package.size}"]


def _list_lines(name: str, texts: tuple[str, ...]) -> list[str]:
    return [f"{name} = [", *(f"    {_toml_text(text)}," for text in texts), "]"] if texts else []


def _toml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def parse_lock(text: str, source: str, *, remedy: str = "") -> Lock:
    """Parse a lock. Raises InputError: people and merges edit it."""
    try:
        raw = toml.loads(text)
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema {raw['schema']} is not {SCHEMA}")
        stack = raw["stack"]
        packages = sorted((_read_wheel(p) for p in raw["package"]), key=lambda p: p.name)
        _each_once(packages)
        return Lock(
            row=_read_word(stack["row"]),
            torch=_read_word(stack["torch"]),
            mpi=_read_word(stack["mpi"]),
            python=_read_word(stack["python"]),
            platform=_read_word(stack["platform"]),
            packages=tuple(packages),
            uv=_read_wheel(raw["uv"]),
            requirements=tuple(_read_requirement(t) for t in stack.get("requirements", ())),
            constraints=tuple(_read_requirement(t) for t in stack.get("constraints", ())),
            requirement_files=tuple(_read_text(t) for t in stack.get("requirement_files", ())),
            cpython=_read_package(raw["cpython"], _CPYTHON) if "cpython" in raw else None,
        )
    except KeyError as e:
        why = f"{e.args[0]} is missing"
    except (ValueError, TypeError, RecursionError) as e:
        why = str(e)
    raise InputError(
        f"{source} is not a lock that ipexctl wrote",
        why=why,
        hint=remedy or f"rm {source}   # the next install resolves the versions again",
        slug="lock-invalid",
    )


def _each_once(packages: Sequence[LockedPackage]) -> None:
    from packaging.utils import canonicalize_name

    names = [canonicalize_name(package.name) for package in packages]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is duplicated")


def _read_wheel(raw: Mapping[str, Any]) -> LockedPackage:
    """Read a wheel; its name and version must match its file, which is what hosts install."""
    from packaging.utils import canonicalize_name, parse_wheel_filename
    from packaging.version import Version

    package = _read_package(raw, _WHEEL)
    name, version, _, _ = parse_wheel_filename(package.file)
    if (name, version) != (canonicalize_name(package.name), Version(package.version)):
        raise ValueError(f"{package.file} is not {package.name} {package.version}")
    return package


def _read_package(raw: Mapping[str, Any], pattern: re.Pattern[str]) -> LockedPackage:
    name, version, file, sha256 = (
        _read_text(raw[key]) for key in ("name", "version", "file", "sha256")
    )
    size = raw["size"]
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"size {size!r} of {name}")
    if not pattern.match(file):
        kind = "a wheel" if pattern is _WHEEL else "a Python"
        raise ValueError(f"{file!r} is not the name of {kind}")
    if not _SHA.match(sha256):
        raise ValueError(f"{sha256!r} is not a sha256")
    return LockedPackage(name, version, file, sha256, size)


def _read_requirement(value: Any) -> str:
    from packaging.requirements import Requirement

    if Requirement(_read_text(value)).url:  # uv would start git for it, on any address
        raise ValueError(f"{value!r} is a path or URL, not a package name and version")
    return str(value)


def _read_word(value: Any) -> str:
    if not _read_text(value).isprintable():
        raise ValueError(f"{value!r} has characters that are not printable")
    return str(value)


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value
