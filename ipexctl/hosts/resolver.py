"""A Stack becomes a Lock: uv resolves on this machine for the hosts' Python and platform.

Which index torch comes from is decided by trying: the user's own (a CPU build has the version
X+cpu), else the table's index for torch alone, else the default index if that is a CPU build.
Where Intel's packages may come from, pins.py says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ipexctl.core import toml
from ipexctl.core.lock import Lock, Package
from ipexctl.core.stack import Stack, requirements
from ipexctl.errors import InputError, NotHere
from ipexctl.hosts.indexes import Indexes
from ipexctl.hosts.pins import Pin, Pins, of_intel, of_torch, places, strays
from ipexctl.hosts.pins import project as project_text

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
    index: Pin | None = None


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
    reason = ""
    found: list[tuple[Package, str]] = []
    for torch in ({}, {"torch": of_torch(stack.row)}):
        try:
            found = uv.compile(exact, {**uv.intel(), **torch}, "--no-deps")
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
    reasons: dict[tuple[str, str], list[str]] = {}
    plain, cpu, index = f"torch=={row.torch}", f"torch=={row.torch}+cpu", of_torch(row)
    # a page of links has the CUDA builds too, and `+cu` sorts after `+cpu`
    own, tables, default = _Try(cpu), _Try(cpu if index.flat else plain, index), _Try(plain)
    unreachable: set[str] = set()
    each = [(stack, _Uv(stack, indexes, environ, unreachable)) for stack in candidates]
    for way in (own, default) if indexes.no_index else (own, tables, default):
        for stack, uv in each:
            try:
                return stack, _one_way(uv, way)
            except _Unresolved as e:
                place = way.index.url if way.index else "your indexes"
                asked = f"{way.torch} from {place}"
                reasons.setdefault((asked, str(e)), []).append(stack.python_text)
                if e.network:
                    break
    raise _cannot_be_had(
        candidates[0],
        "\n".join(f"{asked}, Python {', '.join(ps)}: {e}" for (asked, e), ps in reasons.items()),
    )


def _cannot_be_had(stack: Stack, why: str) -> InputError:
    row = stack.row
    hint = (
        "--extra-index-url URL or --find-links FOLDER   # one that has torch "
        f"{row.torch}+cpu; or another --torch or --python"
    )
    if not row.ipex:
        what = f"no CPU build of torch {row.torch} can be had for {stack.platform}"
        return InputError(what, why=why, hint=hint)
    return InputError(
        f"{row.title} cannot be had for {stack.platform}",
        why=why,
        hint="--find-links FOLDER   # one that has these wheels; or --stack stock, without IPEX",
    )


def _one_way(uv: _Uv, way: _Try) -> list[tuple[Package, str]]:
    pins = {**uv.intel(), **({"torch": way.index} if way.index else {})}
    found = uv.compile((way.torch, *requirements(uv.stack)), pins)
    cuda = sorted(p.name for p, _ in found if p.name.startswith("nvidia-"))
    if cuda:
        raise _Unresolved(f"a CUDA build: {cuda[0]} and {len(cuda) - 1} more nvidia packages")
    stray = strays((p for p, _ in found), uv.stack.row, pins)
    if stray and not uv.no_index:
        raise _Unresolved(f"{', '.join(stray)} would come from an index that anybody can fill")
    return found


class _Uv:
    """uv's resolver for one stack. `unreachable`: indexes that gave no answer, to ask them once."""

    def __init__(
        self,
        stack: Stack,
        indexes: Indexes,
        environ: Mapping[str, str],
        unreachable: set[str] | None = None,
    ) -> None:
        self.stack = stack
        self.no_index = indexes.no_index
        self._indexes = indexes
        self._unreachable = set() if unreachable is None else unreachable
        self._intel: dict[str, Pin] | _Unresolved | None = None
        self._binary = find_uv(environ)
        self._arguments = indexes.arguments()
        self._environ = dict(environ)
        if indexes.cert:
            self._environ.setdefault("SSL_CERT_FILE", indexes.cert)
        self._environ.setdefault("UV_HTTP_RETRIES", "2")
        # uv looks for the hosts' Python on this machine, and would ask the network for one.
        self._environ["UV_PYTHON_DOWNLOADS"] = "never"

    def intel(self) -> Pins:
        """Where Intel's packages of this row are, asked once. Raises _Unresolved."""
        if self._intel is None:
            try:
                self._intel = dict(self._find_intel())
            except _Unresolved as e:
                self._intel = e
        if isinstance(self._intel, _Unresolved):
            raise self._intel
        return self._intel

    def _find_intel(self) -> Iterator[tuple[str, Pin]]:
        for name, version in of_intel(self.stack.row).items():
            # without any index, all there is are the user's own folders
            place = None if self.no_index else self._place(name, version)
            if place:
                yield name, place

    def _place(self, name: str, version: str) -> Pin | None:
        reasons = []
        for place in places(self.stack.row, name, self._indexes):
            where = place.url if place else "the default index"
            if where in self._unreachable:
                continue
            try:
                self.compile((f"{name}=={version}",), {name: place} if place else {}, "--no-deps")
                return place
            except _Unresolved as e:
                reasons.append(f"{where}: {e}")
                if e.network:
                    self._unreachable.add(where)
        told = "; ".join(reasons) or f"no answer from {', '.join(sorted(self._unreachable))}"
        raise _Unresolved(f"{name} {version} is not to be had: {told}")

    def compile(
        self, wanted: Sequence[str], pins: Pins, *options: str
    ) -> list[tuple[Package, str]]:
        """Every wheel of the resolution and its address. Raises _Unresolved with uv's words."""
        with tempfile.TemporaryDirectory(prefix="ipexctl-") as folder:
            project, out = Path(folder) / "pyproject.toml", Path(folder) / "pylock.toml"
            project.write_text(project_text(wanted, pins), "utf-8")
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
    # uv's hints are about its own options
    return " ".join(lines[-4:]).partition(" hint: ")[0][:600] or "uv failed without a word"
