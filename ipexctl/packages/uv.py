"""Run uv's resolver for one Stack: requirements and pins in, wheels and their addresses out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ipexctl.base import toml
from ipexctl.errors import InputError, NotHere, reason_of
from ipexctl.local.user_dirs import cache_dir, make_private
from ipexctl.packages.indexes import Indexes, in_variables, plain_index_url
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack.lock_file import LockedPackage
from ipexctl.stack.selection import Stack

TIMEOUT = 600.0  # seconds of one resolution; UV_HTTP_TIMEOUT limits each wait for an answer
ANY_INDEX = ("--index-strategy", "unsafe-first-match")
ALONE = "--no-deps"
LAST_LINES, LONGEST = 8, 1000  # of uv's output, in an error
NO_ANSWER = re.compile(r"Failed to fetch|client error")
_LOGIN = re.compile(r"://[^\s/]*@")


@dataclass(frozen=True)
class FoundUv:
    """One wheel of a resolution, and its present address."""

    package: LockedPackage
    url: str


@dataclass(frozen=True)
class Pin:
    """The only allowed source of a package. `flat`: a page or folder of wheels."""

    url: str
    flat: bool = False


Pins = Mapping[str, Pin]


class Unresolved(Exception):
    """uv could not resolve; the argument is its reason."""

    @property
    def network(self) -> bool:
        """Whether the index gave no answer, so that a retry for another Python is useless."""
        return bool(NO_ANSWER.search(str(self)))


class Uv:
    """uv for a stack. `preferred`: name -> version to keep while it fits, despite newer ones."""

    def __init__(
        self,
        stack: Stack,
        indexes: Indexes,
        environ: Mapping[str, str],
        preferred: Mapping[str, str] | None = None,
    ) -> None:
        self.stack = stack
        self.indexes = indexes
        self._preferred = preferred or {}
        self._binary = find_uv(environ)
        self._environ = {**environ, **indexes.environ()}
        if indexes.cert:
            self._environ.setdefault("SSL_CERT_FILE", indexes.cert)
        self._environ.setdefault("UV_HTTP_RETRIES", "2")
        # else uv would download a Python if it cannot use an installed one
        self._environ["UV_PYTHON_DOWNLOADS"] = "never"

    def compile(
        self,
        requirements: Sequence[str],
        pins: Pins,
        *options: str,
        constraints: Sequence[str] = (),
    ) -> list[FoundUv]:
        """Return one wheel for each package. Raises Unresolved with uv's message."""
        return [wheels[0] for wheels in self._resolve(requirements, pins, options, constraints)]

    def wheels(self, requirements: Sequence[str], pins: Pins, *options: str) -> list[FoundUv]:
        """Return every wheel of each package that the hosts can load. Raises Unresolved."""
        return [wheel for wheels in self._resolve(requirements, pins, options) for wheel in wheels]

    def _resolve(
        self,
        requirements: Sequence[str],
        pins: Pins,
        options: Sequence[str],
        constraints: Sequence[str] = (),
    ) -> list[list[FoundUv]]:
        """Resolve. Raises Unresolved, and InputError if an index does not answer in time."""
        # not below /tmp: uv reads pyproject.toml and uv.toml, of any user, in the folders above
        parent = cache_dir(self._environ) / "resolve"
        make_private(parent)
        with tempfile.TemporaryDirectory(prefix="ipexctl-", dir=parent) as folder:
            out = Path(folder, "pylock.toml")
            Path(folder, "pyproject.toml").write_text(
                pyproject_text(requirements, pins, constraints), "utf-8"
            )
            if self._preferred:
                out.write_text(_preferences_text(self._preferred), "utf-8")
            self._run(folder, {"UV_CACHE_DIR": str(parent / "uv"), **self._environ}, pins, options)
            return [_read_wheels(raw) for raw in toml.loads(out.read_text("utf-8"))["packages"]]

    def _run(
        self, folder: str, environ: Mapping[str, str], pins: Pins, options: Sequence[str]
    ) -> None:
        """Run `uv pip compile`. Raises Unresolved with its message."""
        command = (
            self._binary,
            "pip",
            "compile",
            "pyproject.toml",
            "--output-file",
            "pylock.toml",
            "--format",
            "pylock.toml",
            "--quiet",
            "--only-binary",
            ":all:",
            # else uv queries every Python that it finds here, each time, for seconds
            "--python",
            sys.executable,
            "--python-version",
            self.stack.python_full,
            "--python-platform",
            self.stack.platform,
            *self.indexes.arguments(),
            *options,
        )
        try:
            process = subprocess.run(
                command,
                cwd=folder,
                env={**environ, "COLUMNS": "100000"},
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._no_answer(pins) from None
        except OSError as e:
            raise NotHere(
                f"cannot run {self._binary}", why=reason_of(e), slug="uv-failed"
            ) from None
        if process.returncode:
            raise Unresolved(_last_lines(process.stderr))

    def _no_answer(self, pins: Pins) -> InputError:
        urls = (*(pin.url for pin in pins.values()), *in_variables(self._environ))
        sources = dict.fromkeys(plain_index_url(url) for url in urls if "://" in url)
        return InputError(
            f"uv did not resolve the packages within {TIMEOUT:.0f} s",
            why=f"it asked {', '.join(sources) or 'the default index'}; a package index may stall",
            hint="run the same command again; or --index-url URL   # another index",
            slug="index-no-answer",
        )


def pyproject_text(requirements: Iterable[str], pins: Pins, constraints: Iterable[str] = ()) -> str:
    """Return a project file: only that can bind one package to one index."""
    lines = ["[project]", 'name = "ipexctl-environment"', 'version = "0"']
    lines += [f"dependencies = {_toml_list(requirements)}"]
    lines += ["[tool.uv]", f"constraint-dependencies = {_toml_list(constraints)}"]
    lines += ["[tool.uv.workspace]"]  # its own: then uv does not search the folders above for one
    lines += ["[tool.uv.sources]"]
    places = list(dict.fromkeys(pins.values()))
    lines += [f'{name} = {{ index = "pin{places.index(pin)}" }}' for name, pin in pins.items()]
    for i, pin in enumerate(places):
        lines += ["[[tool.uv.index]]", f'name = "pin{i}"', f'url = "{pin.url}"']
        lines += ["explicit = true", *(['format = "flat"'] if pin.flat else [])]
    return "\n".join(lines) + "\n"


def _toml_list(texts: Iterable[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False)


def _preferences_text(versions: Mapping[str, str]) -> str:
    """Return an earlier output, from which uv takes preferred versions."""
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
    path = shutil.which("uv", path=environ.get("PATH"))
    if path is None:
        raise NotHere(
            "uv is not installed on this machine", hint="pip install uv", slug="uv-missing"
        )
    return path


def _read_wheels(raw: Mapping[str, Any]) -> list[FoundUv]:
    wheels = [_read_wheel(raw, wheel) for wheel in raw.get("wheels", ())]
    usable = [item for item in wheels if item.url and item.package.sha256]
    if not usable:
        raise Unresolved(f"{raw['name']} {raw.get('version', '')} has no wheel with a sha256")
    return usable


def _read_wheel(raw: Mapping[str, Any], wheel: Mapping[str, Any]) -> FoundUv:
    url = wheel.get("url") or _file_url(wheel.get("path", ""))
    file = wheel.get("name") or unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    sha256 = wheel.get("hashes", {}).get("sha256", "")
    return FoundUv(
        LockedPackage(raw["name"], raw["version"], file, sha256, wheel.get("size", 0)), url
    )


def _file_url(path: str) -> str:
    return Path(path).absolute().as_uri() if path else ""


def _last_lines(stderr: str) -> str:
    """Return the end of uv's output in one line, without logins, which not every uv masks."""
    lines = _LOGIN.sub("://", stderr).split("\n")
    words = " ".join(" ".join(lines[-LAST_LINES:]).split())
    return words.removeprefix("error: ")[:LONGEST] or "uv failed without a message"
