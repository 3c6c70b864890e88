"""A shop of stand-in wheels, so that faults can be tried without gigabytes.

They are called torch, numpy and uv and are not: `torch` is a few lines that can be multiplied and
differentiated once, `uv` is a script that calls the real uv, and sleeps first when told to.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.machines.agent import Agent
from ipexctl.packages.uv import find_uv
from tests.cli import ipexctl

REPO = Path(__file__).parents[2]

TORCH = """
__version__ = {version!r}
class _Ones:
    def __init__(self): self.grad = {{}}
    def __matmul__(self, other): return self
    def sum(self): return self
    def backward(self): self.grad[0, 0] = {gradient}
def ones(*size, requires_grad): return _Ones()
"""


def make_wheel(
    folder: Path, name: str, version: str, files: dict[str, bytes], requires: tuple[str, ...] = (),
    *, tag: str = "py3-none-any",
) -> Path:  # fmt: skip
    """A wheel by hand: the files, METADATA, WHEEL and RECORD."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {r}\n" for r in requires)
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata = f"{head}Summary: a stand-in made by a test, not {name}\n{needs}"
    wheel = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n"
    members = {**files, f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": wheel.encode()}
    record = "".join(f"{n},sha256={_digest(c)},{len(c)}\n" for n, c in members.items())
    members[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


@dataclass
class Shop:
    """Stand-in wheels, an empty working folder, and the real command run with them."""

    folder: Path

    @property
    def wheels(self) -> Path:
        return self.folder / "wheels"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def hold(self) -> Path:
        """While this file exists, the stand-in uv writes its pid to `held` and sleeps."""
        return self.folder / "hold"

    @property
    def held(self) -> Path:
        return self.folder / "held"

    def stock(self) -> None:
        for path in (self.wheels, self.work):
            path.mkdir(exist_ok=True)
        self.torch("2.13.0+cpu")
        make_wheel(self.wheels, "numpy", "2.0", {"numpy.py": b""})
        uv = f"""#!/bin/sh
if [ -e {self.hold} ]; then echo $$ > {self.held}; exec sleep 600; fi
exec {find_uv(os.environ)} "$@"
"""
        make_wheel(self.wheels, "uv", "0.9.9", {"uv-0.9.9.data/scripts/uv": uv.encode()})

    def torch(self, version: str, *requires: str, gradient: float = 128.0) -> Path:
        source = TORCH.format(version=version, gradient=gradient).encode()
        return make_wheel(self.wheels, "torch", version, {"torch.py": source}, requires)

    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
        return {
            **kept,
            "PYTHONPATH": str(REPO),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": f"{self.wheels} {self.folder}/not-there",
        }

    def start(
        self, *options: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ipexctl", *self._install(options)],
            cwd=self.work, env={**self.environ(), **(environ or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def install(self, *options: str, **environ: str) -> Outcome:
        return self.ipexctl(*self._install(options), **environ)

    def _install(self, options: tuple[str, ...]) -> tuple[str, ...]:
        return ("install", "--root", str(self.root), "-y", "--mpi", "none", "--json", *options)

    def ipexctl(self, *words: str, before: tuple[str, ...] = (), **environ: str) -> Outcome:
        """In this process; in one of its own where a program stands before it."""
        env = {**self.environ(), **environ}
        if not before:
            done = ipexctl(*words, cwd=self.work, env=env)
        else:
            done = subprocess.run(
                [*before, sys.executable, "-m", "ipexctl", *words], cwd=self.work, env=env,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr, getattr(done, "slug", ""))

    @property
    def current(self) -> str:
        link = self.root / "current"
        return os.readlink(link) if link.is_symlink() else ""

    def envs(self) -> list[str]:
        return sorted(p.name for p in self.root.glob("envs/*"))


@dataclass(frozen=True)
class Outcome:
    """`slug`: of the error that ended a command in this process."""

    code: int
    out: str
    err: str
    slug: str = ""

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def states(self) -> list[str]:
        return [h["state"] for h in self.document["hosts"]]

    @property
    def slugs(self) -> list[str | None]:
        """Of the errors that hosts failed with."""
        return [h["slug"] for h in self.document["hosts"]]

    @property
    def detail(self) -> str:
        host = self.document["hosts"][0]
        return "\n".join([host["detail"], *host["notes"]])


def finish(process: subprocess.Popen[str]) -> Outcome:
    out, err = process.communicate(timeout=120)
    return Outcome(process.returncode, out, err)


def until(what: Callable[[], object], seconds: float = 60) -> None:
    assert wait_until(what, seconds, 0.05), "waited in vain"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.stock()
    return shop


@dataclass
class Builder:
    """Environments that the agent builds of the shop's wheels; nothing is resolved or proved."""

    agent: Agent
    shop: Shop

    def build(self, key: str, *wheels: Path, rebuild: str = "") -> Path:
        """The site-packages of environment KEY."""
        header = self.header(key, *wheels, rebuild=rebuild)
        number = self.agent.start_beside("install.environments.build", header)
        self.agent.feed(number, {"all": True})
        self.agent.wait(number)
        return next((self.env(key) / "lib").glob("python3*")) / "site-packages"

    def header(self, key: str, *wheels: Path, rebuild: str = "") -> dict[str, object]:
        """Of a build whose wheels are on the host."""
        return {
            "root": str(self.shop.root), "key": key, "python": sys.executable, "cpython": [],
            "wheels": [[w.name, *self.locked(w)] for w in wheels],
            "uv": self.locked(next(self.shop.wheels.glob("uv-*"))), "rebuild": rebuild,
        }  # fmt: skip

    def locked(self, wheel: Path) -> list[object]:
        """Its sha256 and size; it is on the host."""
        return [self.blob(wheel).name, wheel.stat().st_size]

    def blob(self, wheel: Path) -> Path:
        """Sent to the host, if it is not there."""
        path = self.blob_of(wheel)
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(wheel.read_bytes())
        return path

    def blob_of(self, wheel: Path) -> Path:
        sha = hashlib.sha256(wheel.read_bytes()).hexdigest()
        return self.shop.root / "blobs" / "sha256" / sha[:2] / sha

    def env(self, key: str) -> Path:
        return self.shop.root / "envs" / key

    def building(self, pattern: str = "") -> list[Path]:
        """Files of an environment that is not complete."""
        return list(self.shop.root.glob(f"envs/.work-*/env/{pattern}"))

    @property
    def cache(self) -> Path:
        return self.shop.root / "blobs" / "unpacked" / "cache"

    def says(self, key: str, code: str) -> str:
        python = self.env(key) / "bin" / "python"
        return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


@pytest.fixture
def builder(agent: Agent, shop: Shop) -> Builder:
    shop.root.mkdir(mode=0o700)
    return Builder(agent, shop)
