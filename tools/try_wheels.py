#!/usr/bin/env python3
"""usage: tools/try_wheels.py [--pipx] [WHEEL [PYTHON...]]

Installs WHEEL (default: the one in dist/) with pip, or with pipx, for each PYTHON (default: every
one from 3.10 to 3.14 that is on this machine), and runs the part of ipexctl that needs no hosts. It
imports nothing of ipexctl, so that it also works beside a wheel on a machine without this checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PLACES = ("~/.pyenv/versions/{}.*/bin", "~/.local/share/uv/python/cpython-{}.*/bin", "/opt/*/bin")
FILES = {
    "hosts": "node[01-02]\n",
    "old.py": "import intel_extension_for_pytorch as ipex\n",
    "train.py": "import os, torch\nprint('rank', os.environ['RANK'])\n",
}
# words of a command, its exit code, and a part of its output
TRIES = (
    ("--version", 0, "ipexctl "),
    ("--help", 0, "Start here:"),
    ("run --help", 0, "Usage: ipexctl run"),
    ("stacks", 0, "torch-2."),
    ("explain MPI-001", 0, "MPI-001"),
    ("migrate old.py", 1, "old.py:1: ipex-import"),
    ("play train --list-steps", 0, "install"),
    ("play no-such", 2, "prepare-debian"),
    ("hosts -f hosts", 0, "node02"),
    ("config", 0, ""),
    # the table of known failures, and the agent, which is sent as source
    ("explain -", 0, "no space left"),
    ("run -n 2 --force train.py", 0, "rank 1"),
    ("ps -a", 0, "train.py"),
)
STDIN = "RuntimeError: [Errno 28] No space left on device\n"


def python(version: str) -> str | None:
    """The first one of this version that is on this machine."""
    folders = (*os.environ.get("PATH", "").split(os.pathsep), *PLACES)
    found = (path for f in folders for path in _below(f.format(version), f"python{version}"))
    return next((path for path in found if _answers(path, version)), None)


def pythons() -> Iterator[str]:
    """One of each version; those that are not here are named on stderr."""
    for version in PYTHONS:
        if found := python(version):
            yield found
        else:
            print(f"Python {version} is not on this machine: not tried", file=sys.stderr)


def _below(place: str, name: str) -> list[str]:
    folder = Path(place).expanduser()
    return sorted(map(str, Path(folder.anchor or ".").glob(f"{folder}/{name}".lstrip("/"))))


def _answers(path: str, version: str) -> bool:
    """A shim of pyenv is there also where its Python is not."""
    ask = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def installed_with_pip(wheel: Path, python: str, folder: Path) -> Path:
    """The `ipexctl` of a new environment."""
    _call([python, "-m", "venv", str(folder / "env")])
    _pip(folder / "env", str(wheel))
    return folder / "env/bin/ipexctl"


def installed_with_pipx(wheel: Path, python: str, folder: Path) -> Path:
    _call([python, "-m", "venv", str(folder / "pipx")])
    _pip(folder / "pipx", "pipx")
    places = {"PIPX_HOME": folder / "home", "PIPX_BIN_DIR": folder / "bin", "PIPX_MAN_DIR": folder}
    words = ["install", "--backend", "pip", "--python", python, str(wheel)]
    _call([str(folder / "pipx/bin/python"), "-m", "pipx", *words], places)
    return folder / "bin/ipexctl"


def _pip(env: Path, what: str) -> None:
    words = ["install", "--quiet", "--disable-pip-version-check", what]
    _call([str(env / "bin/python"), "-m", "pip", *words])


def _call(words: Sequence[str], places: Mapping[str, Path] = MappingProxyType({})) -> None:
    env = {**os.environ, **{name: str(place) for name, place in places.items()}}
    env.pop("PYTHONPATH", None)  # pip takes what is there for installed
    done = subprocess.run(
        words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed with exit code {done.returncode}:\n{done.stdout}")


def wrong(program: Path, python: str, folder: Path) -> list[str]:
    """The commands that did something else than TRIES says, each with what it printed."""
    env = _prepared(python, folder)
    found = []
    for words, code, part in TRIES:
        done = subprocess.run(
            [str(program), *words.split()], cwd=folder / "code", env=env, input=STDIN,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
        )  # fmt: skip
        if done.returncode != code or part.lower() not in done.stdout.lower():
            found.append(f"ipexctl {words}: exit code {done.returncode}\n{done.stdout}")
    return found


def _prepared(python: str, folder: Path) -> dict[str, str]:
    """A user's empty home, and an environment with a stand-in for torch for `run`."""
    for name in ("user", "code"):
        (folder / name).mkdir()
    for name, text in FILES.items():
        (folder / "code" / name).write_text(text)
    _call([python, "-m", "venv", "--without-pip", str(folder / "stack")])
    (site,) = (folder / "stack/lib").glob("python3*/site-packages")
    (site / "torch").mkdir()
    (site / "torch/__init__.py").write_text("")
    return {
        "HOME": str(folder / "user"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
        "VIRTUAL_ENV": str(folder / "stack"),
    }  # fmt: skip


def main(words: list[str]) -> int:
    pipx = "--pipx" in words
    words = [word for word in words if word != "--pipx"]
    if any(word.startswith("-") for word in words):
        print(__doc__)
        return 2
    dist = Path(__file__).resolve().parent.parent / "dist"
    wheels = [Path(words[0])] if words else sorted(dist.glob("*.whl"))
    if not wheels:
        sys.exit(f"there is no wheel in {dist}; build one: make dist")
    install, failed = (installed_with_pipx if pipx else installed_with_pip), 0
    for python in words[1:] or pythons():
        with tempfile.TemporaryDirectory() as folder:
            program = install(wheels[-1].resolve(), python, Path(folder))
            troubles = wrong(program, python, Path(folder))
        failed += bool(troubles)
        count = f"{len(TRIES) - len(troubles)} of {len(TRIES)} commands work"
        print(f"{python}, {'pipx' if pipx else 'pip'}: {count}", *troubles, sep="\n", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
