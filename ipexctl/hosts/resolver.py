"""A Stack becomes a Lock: uv resolves on this machine for the hosts' Python and platform.

Which index torch comes from is decided by trying: the user's own (a CPU build has the version
X+cpu), else the table's index for torch alone, else the default index if that is a CPU build.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ipexctl.core import toml
from ipexctl.core.lock import Lock, Package
from ipexctl.core.rows import Row
from ipexctl.core.stack import Stack, requirements
from ipexctl.errors import InputError, NotHere
from ipexctl.hosts.indexes import Indexes

TIMEOUT = 600
Urls = Mapping[str, str]


@dataclass(frozen=True)
class Resolved:
    """A lock whose sizes may be unknown, and where each file (by sha256) can be fetched now."""

    stack: Stack
    lock: Lock
    urls: Urls


@dataclass(frozen=True)
class _Try:
    """One way to ask for torch: the requirement, and the index that it alone comes from."""

    torch: str
    index: str = ""


class _Unresolved(Exception):
    @property
    def network(self) -> bool:
        """The index could not be asked, so asking it again for another Python is of no use."""
        return "Failed to fetch" in str(self) or "client error" in str(self)


def resolve(candidates: Sequence[Stack], indexes: Indexes, environ: Mapping[str, str]) -> Resolved:
    """The first candidate that a CPU build of torch can be had for.

    Raises InputError with what each way of getting torch answered.
    """
    stack, found = _with_torch(candidates, indexes, environ)
    tool = _Uv(stack, indexes, environ).compile(("uv",), {})
    packages = tuple(sorted((package for package, _ in found), key=lambda p: p.name))
    lock = Lock(
        row=stack.row.name,
        torch=stack.row.torch,
        mpi=stack.mpi,
        python=stack.python_text,
        platform=stack.platform,
        packages=packages,
        uv=tool[0][0],
    )
    return Resolved(stack, lock, {p.sha256: url for p, url in (*found, *tool)})


def locate(stack: Stack, lock: Lock, indexes: Indexes, environ: Mapping[str, str]) -> Urls:
    """Where the files of a lock that is already there can be had."""
    uv = _Uv(stack, indexes, environ)
    exact = tuple(f"{p.name}=={p.version}" for p in lock.packages)
    pinned = {**_pins(stack.row), "torch": stack.row.torch_index}
    found: list[tuple[Package, str]] = []
    for pins in (_pins(stack.row), pinned):
        try:
            found = uv.compile(exact, pins, "--no-deps")
            found += uv.compile((f"uv=={lock.uv.version}",), {}, "--no-deps")
            break
        except _Unresolved as e:
            reason = str(e)
    else:
        raise InputError(
            "what ipexctl.lock names cannot be had from your indexes",
            why=reason,
            hint="rm ipexctl.lock   # resolves afresh",
        )
    urls = {package.sha256: url for package, url in found}
    for package in lock.files:
        if package.sha256 not in urls:
            raise InputError(
                f"your indexes have another {package.file} than ipexctl.lock",
                why=f"nothing there has sha256 {package.sha256}",
                hint="rm ipexctl.lock   # resolves afresh",
            )
    return urls


def _with_torch(
    candidates: Sequence[Stack], indexes: Indexes, environ: Mapping[str, str]
) -> tuple[Stack, list[tuple[Package, str]]]:
    """Each way for every Python before the next way: what the user set up goes before what not."""
    row = candidates[0].row
    reasons = []
    own, tables, default = (
        _Try(f"torch=={row.torch}+cpu"),
        _Try(f"torch=={row.torch}", row.torch_index),
        _Try(f"torch=={row.torch}"),
    )
    for way in (own, default) if indexes.no_index else (own, tables, default):
        for stack in candidates:
            try:
                return stack, _one_way(_Uv(stack, indexes, environ), way)
            except _Unresolved as e:
                place = way.index or "your indexes"
                reasons.append(f"{way.torch} from {place}, Python {stack.python_text}: {e}")
                if e.network:
                    break
    raise InputError(
        f"no CPU build of torch {row.torch} can be had for {candidates[0].platform}",
        why="\n".join(reasons),
        hint="--extra-index-url URL or --find-links FOLDER   # one that has torch "
        f"{row.torch}+cpu; or another --torch or --python",
    )


def _one_way(uv: _Uv, way: _Try) -> list[tuple[Package, str]]:
    pins = {**_pins(uv.stack.row), **({"torch": way.index} if way.index else {})}
    found = uv.compile((way.torch, *requirements(uv.stack)), pins)
    cuda = sorted(p.name for p, _ in found if p.name.startswith("nvidia-"))
    if cuda:
        raise _Unresolved(f"a CUDA build: {cuda[0]} and {len(cuda) - 1} more nvidia packages")
    return found


def _pins(row: Row) -> dict[str, str]:
    """Packages that only one index may serve: their names are unclaimed on the default one."""
    named = [("intel-extension-for-pytorch", row.ipex), (row.oneccl_dist, row.oneccl)]
    return {name: row.links for name, version in named if version and row.links}


class _Uv:
    """uv's resolver for one stack."""

    def __init__(self, stack: Stack, indexes: Indexes, environ: Mapping[str, str]) -> None:
        self.stack = stack
        self._binary = find_uv(environ)
        self._arguments = indexes.arguments()
        self._environ = dict(environ)
        if indexes.cert:
            self._environ.setdefault("SSL_CERT_FILE", indexes.cert)
        self._environ.setdefault("UV_HTTP_RETRIES", "2")
        # uv looks for the hosts' Python on this machine, and would ask the network for one.
        self._environ["UV_PYTHON_DOWNLOADS"] = "never"

    def compile(
        self, wanted: Sequence[str], pins: Mapping[str, str], *options: str
    ) -> list[tuple[Package, str]]:
        """Every wheel of the resolution and its address. Raises _Unresolved with uv's words."""
        with tempfile.TemporaryDirectory(prefix="ipexctl-") as folder:
            project, out = Path(folder) / "pyproject.toml", Path(folder) / "pylock.toml"
            project.write_text(_project(wanted, pins), "utf-8")
            command = (
                self._binary, "pip", "compile", str(project), "--output-file", str(out),
                "--format", "pylock.toml", "--quiet", "--no-header", "--only-binary", ":all:",
                "--python-version", self.stack.python_text,
                "--python-platform", self.stack.platform,
                *self._arguments, *options,
            )  # fmt: skip
            self._run(command, folder)
            return [_package(raw) for raw in toml.loads(out.read_text("utf-8"))["packages"]]

    def _run(self, command: Sequence[str], folder: str) -> None:
        try:
            done = subprocess.run(
                command, cwd=folder, env=self._environ, capture_output=True, text=True,
                timeout=TIMEOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as e:
            raise NotHere(f"cannot run {command[0]}", why=str(e)) from None
        except subprocess.TimeoutExpired:
            raise _Unresolved(f"uv gave no answer in {TIMEOUT} s") from None
        if done.returncode:
            raise _Unresolved(_last_words(done.stderr))


def find_uv(environ: Mapping[str, str]) -> str:
    try:
        import uv

        return os.fsdecode(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        pass
    found = shutil.which("uv", path=environ.get("PATH"))
    if found is None:
        raise NotHere("uv is not on this machine", hint="pip install uv")
    return found


def _project(wanted: Sequence[str], pins: Mapping[str, str]) -> str:
    """Only a project file can say that one package comes from one index and nowhere else."""
    lines = ["[project]", 'name = "ipexctl-environment"', 'version = "0"']
    lines += [f"dependencies = {list(wanted)!r}", "[tool.uv.sources]"]
    names = {name: f"pin{i}" for i, name in enumerate(pins)}
    lines += [f'{name} = {{ index = "{names[name]}" }}' for name in pins]
    for name, url in pins.items():
        lines += ["[[tool.uv.index]]", f'name = "{names[name]}"', f'url = "{url}"']
        lines += ["explicit = true"]
    return "\n".join(lines) + "\n"


def _package(raw: Mapping[str, Any]) -> tuple[Package, str]:
    wheel = (raw.get("wheels") or [{}])[0]
    url = wheel.get("url") or _file_url(wheel.get("path", ""))
    sha256 = wheel.get("hashes", {}).get("sha256", "")
    if not url or not sha256:
        raise _Unresolved(f"{raw['name']} {raw.get('version', '')} has no wheel with a sha256")
    file = wheel.get("name") or unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    return Package(raw["name"], raw["version"], file, sha256, wheel.get("size", 0)), url


def _file_url(path: str) -> str:
    return Path(path).absolute().as_uri() if path else ""


def _last_words(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return " ".join(lines[-4:])[:600] or "uv failed without a word"
