"""uv's resolver for one Stack: requirements and pins in, wheels and their addresses out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ipexctl.base import toml
from ipexctl.errors import InputError, NotHere, reason_of
from ipexctl.install.stack.lock_file import Package
from ipexctl.install.stack.selection import Stack
from ipexctl.local.user_dirs import cache_dir, make_private
from ipexctl.packages.index_pins import Pins, project
from ipexctl.packages.indexes import Indexes, in_variables, plain
from ipexctl.quick_dataclass import dataclass

TIMEOUT = 600.0  # seconds of one resolution; UV_HTTP_TIMEOUT limits each wait for an answer
ANY_INDEX = ("--index-strategy", "unsafe-first-match")
ALONE = "--no-deps"
LAST_LINES, LONGEST = 8, 1000  # of uv's output, in an error
NO_ANSWER = re.compile(r"Failed to fetch|client error")
HIDDEN = re.compile(r"`([a-z0-9-]+)` was found on \S+, but not at the requested version")
_LOGIN = re.compile(r"://[^\s/]*@")
_NAMED = re.compile(r"([a-z0-9-]+)==")


@dataclass(frozen=True)
class Found:
    """One wheel of a resolution, and where it can be fetched now."""

    package: Package
    url: str


@dataclass(frozen=True)
class Origins:
    """The index that each package of a resolution came from, of these; folders are none."""

    indexes: tuple[str, ...]  # the default one first; () without any
    each: Mapping[str, str]

    @property
    def default(self) -> str:
        return self.indexes[0] if self.indexes else ""


class Unresolved(Exception):
    """`hidden`: packages that an index has, but none that fits; then uv asks no further index."""

    def __init__(self, why: str, hidden: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.hidden = tuple(hidden)

    @property
    def network(self) -> bool:
        """The index could not be asked, so asking it again for another Python is of no use."""
        return bool(NO_ANSWER.search(str(self)))


class Uv:
    """`preferred`: name -> version of what is taken while it fits, though there is a newer one."""

    def __init__(
        self, stack: Stack, indexes: Indexes, environ: Mapping[str, str],
        preferred: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.stack = stack
        self.indexes = indexes
        self._preferred = preferred or {}
        self._binary = find_uv(environ)
        self._environ = {**environ, **indexes.environ()}
        if indexes.cert:
            self._environ.setdefault("SSL_CERT_FILE", indexes.cert)
        self._environ.setdefault("UV_HTTP_RETRIES", "2")
        # if ours is none that uv can use, it would ask the network for one
        self._environ["UV_PYTHON_DOWNLOADS"] = "never"

    def compile(
        self,
        wanted: Sequence[str],
        pins: Pins,
        *options: str,
        constraints: Sequence[str] = (),
    ) -> list[Found]:
        """One wheel for each package of the resolution. Raises Unresolved with uv's words."""
        text = project(wanted, pins, constraints)
        return [wheels[0] for wheels in self._resolved(text, pins, options)]

    def wheels(self, wanted: Sequence[str], pins: Pins, *options: str) -> list[Found]:
        """Every wheel of each package that the hosts can load. Raises Unresolved."""
        found = self._resolved(project(wanted, pins), pins, options)
        return [w for wheels in found for w in wheels]

    def origins(
        self,
        wanted: Sequence[str],
        pins: Pins,
        *options: str,
        constraints: Sequence[str] = (),
    ) -> Origins:
        """The same resolution, by where it came from: uv's pylock.toml does not tell."""
        told = ("--no-annotate", "--emit-index-annotation", "--emit-index-url")
        text = project(wanted, pins, constraints)
        return read_origins(self._compile(text, pins, "out.txt", *told, *options))

    def _resolved(self, text: str, pins: Pins, options: Sequence[str]) -> list[list[Found]]:
        lock = self._compile(text, pins, "pylock.toml", "--format", "pylock.toml", *options)
        return [_found(raw) for raw in toml.loads(lock)["packages"]]

    def _compile(self, text: str, pins: Pins, out: str, *options: str) -> str:
        """Raises Unresolved, and InputError where an index keeps uv waiting for longer."""
        # not below /tmp: uv reads a pyproject.toml and a uv.toml of any user in the folders above
        above = cache_dir(self._environ) / "resolve"
        make_private(above)
        environ = {"UV_CACHE_DIR": str(above / "uv"), **self._environ, "COLUMNS": "100000"}
        with tempfile.TemporaryDirectory(prefix="ipexctl-", dir=above) as folder:
            Path(folder, "pyproject.toml").write_text(text, "utf-8")
            if self._preferred:
                Path(folder, out).write_text(_earlier(out, self._preferred), "utf-8")
            command = (
                self._binary, "pip", "compile", "pyproject.toml", "--output-file", out,
                "--quiet", "--no-header", "--only-binary", ":all:",
                # else uv asks every Python that it finds here, each time, for seconds
                "--python", sys.executable, "--python-version", self.stack.python_full,
                "--python-platform", self.stack.platform,
                *self.indexes.arguments(), *options,
            )  # fmt: skip
            try:
                done = subprocess.run(
                    command, cwd=folder, env=environ, text=True, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise self._no_answer(pins) from None
            except OSError as e:
                raise NotHere(
                    f"cannot run {self._binary}", why=reason_of(e), slug="uv-failed"
                ) from None
            if done.returncode:
                raise Unresolved(_last_lines(done.stderr), HIDDEN.findall(done.stderr))
            return Path(folder, out).read_text("utf-8")

    def _no_answer(self, pins: Pins) -> InputError:
        urls = (*(pin.url for pin in pins.values()), *in_variables(self._environ))
        asked = dict.fromkeys(plain(url) for url in urls if "://" in url)
        return InputError(
            f"uv did not resolve the packages within {TIMEOUT:.0f} s",
            why=f"it asked {', '.join(asked) or 'the default index'}; a package index may stall",
            hint="run the same command again; or --index-url URL   # another index",
            slug="index-no-answer",
        )


def _earlier(out: str, versions: Mapping[str, str]) -> str:
    """An output of an earlier time, as uv takes its preferences from."""
    if out.endswith(".txt"):
        return "".join(f"{name}=={version}\n" for name, version in versions.items())
    tables = (
        f'[[packages]]\nname = "{name}"\nversion = "{version}"\n'
        for name, version in versions.items()
    )
    return 'lock-version = "1.0"\ncreated-by = "ipexctl"\n' + "".join(tables)


def find_uv(environ: Mapping[str, str]) -> str:
    try:
        import uv

        return os.fsdecode(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        pass
    found = shutil.which("uv", path=environ.get("PATH"))
    if found is None:
        raise NotHere(
            "uv is not installed on this machine", hint="pip install uv", slug="uv-missing"
        )
    return found


def read_origins(text: str) -> Origins:
    """uv's `--emit-index-url --emit-index-annotation`; it stars passwords in one of them."""
    name = ""
    indexes: list[str] = []
    each: dict[str, str] = {}
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word in ("--index-url", "--extra-index-url"):
            indexes.append(plain(rest))
        elif named := _NAMED.match(line):
            name = named[1]
        elif rest.startswith("from ") and name:
            each[name] = plain(rest.removeprefix("from "))
    return Origins(tuple(indexes), each)


def _found(raw: Mapping[str, Any]) -> list[Found]:
    wheels = [_wheel(raw, wheel) for wheel in raw.get("wheels", ())]
    known = [w for w in wheels if w.url and w.package.sha256]
    if not known:
        raise Unresolved(f"{raw['name']} {raw.get('version', '')} has no wheel with a sha256")
    return known


def _wheel(raw: Mapping[str, Any], wheel: Mapping[str, Any]) -> Found:
    url = wheel.get("url") or _file_url(wheel.get("path", ""))
    file = wheel.get("name") or unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    sha256 = wheel.get("hashes", {}).get("sha256", "")
    return Found(Package(raw["name"], raw["version"], file, sha256, wheel.get("size", 0)), url)


def _file_url(path: str) -> str:
    return Path(path).absolute().as_uri() if path else ""


def _last_lines(stderr: str) -> str:
    """The end of uv's output in one line, without the logins that not every uv masks."""
    lines = _LOGIN.sub("://", stderr).split("\n")
    words = " ".join(" ".join(lines[-LAST_LINES:]).split())
    return words.removeprefix("error: ")[:LONGEST] or "uv failed without a message"
