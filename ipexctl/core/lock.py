"""ipexctl.lock: exactly which files an environment is made of, as text and back.

No addresses and no paths: the same text anywhere, whichever mirror the files came from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ipexctl.core import toml
from ipexctl.core.model import Blob
from ipexctl.errors import InputError

SCHEMA = 1
_HEAD = """\
# Made by `ipexctl install`. The same lock gives the same environment, file by file.
# Keep it under version control; delete it to resolve afresh.
"""
_WHEEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl\Z")
_SHA = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True)
class Package:
    """One wheel. `size` 0: not known yet (nobody has fetched it)."""

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
    packages: tuple[Package, ...]
    uv: Package

    @property
    def key(self) -> str:
        """The environment's name on the hosts. Not uv: another builder builds the same."""
        what = {
            "schema": SCHEMA,
            "python": self.python,
            "platform": self.platform,
            "packages": [[p.name, p.version, p.file, p.sha256] for p in self.packages],
        }
        text = json.dumps(what, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def files(self) -> tuple[Package, ...]:
        return (*self.packages, self.uv)

    def version(self, name: str) -> str:
        """The locked version of a package, "" if it isn't in the lock."""
        return next((p.version for p in self.packages if p.name == name), "")


def same_request(a: Lock, b: Lock) -> bool:
    """Were both made for the same choice and the same kind of hosts?"""
    return _request(a) == _request(b)


def _request(lock: Lock) -> tuple[str, ...]:
    return lock.row, lock.torch, lock.mpi, lock.python, lock.platform


def render(lock: Lock) -> str:
    lines = [_HEAD, f"schema = {SCHEMA}", "", "[stack]"]
    names = ("row", "torch", "mpi", "python", "platform")
    lines += [f"{name} = {_quoted(getattr(lock, name))}" for name in names]
    lines += ["", "[uv]", *_package_lines(lock.uv)]
    for package in sorted(lock.packages, key=lambda p: p.name):
        lines += ["", "[[package]]", *_package_lines(package)]
    return "\n".join(lines) + "\n"


def _package_lines(package: Package) -> list[str]:
    names = ("name", "version", "file", "sha256")
    lines = [f"{name} = {_quoted(getattr(package, name))}" for name in names]
    return [*lines, f"size = {package.size}"]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def parse(text: str, source: str) -> Lock:
    """Raises InputError: a lock is a file that people and merges edit."""
    try:
        raw = toml.loads(text)
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema {raw['schema']} is not {SCHEMA}")
        stack = raw["stack"]
        packages = sorted((_package(p) for p in raw["package"]), key=lambda p: p.name)
        return Lock(
            row=_text(stack["row"]),
            torch=_text(stack["torch"]),
            mpi=_text(stack["mpi"]),
            python=_text(stack["python"]),
            platform=_text(stack["platform"]),
            packages=tuple(packages),
            uv=_package(raw["uv"]),
        )
    except KeyError as e:
        why = f"{e.args[0]} is missing"
    except (ValueError, TypeError, RecursionError) as e:
        why = str(e)
    raise InputError(
        f"{source} is not a lock that ipexctl wrote",
        why=why,
        hint=f"rm {source}   # the next install resolves afresh",
    )


def _package(raw: Mapping[str, Any]) -> Package:
    name, version, file, sha256 = (_text(raw[n]) for n in ("name", "version", "file", "sha256"))
    size = raw["size"]
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"size {size!r} of {name}")
    if not _WHEEL.match(file):
        raise ValueError(f"{file!r} is not the name of a wheel")
    if not _SHA.match(sha256):
        raise ValueError(f"{sha256!r} is not a sha256")
    return Package(name, version, file, sha256, size)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value
