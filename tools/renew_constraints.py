#!/usr/bin/env python3
"""usage: tools/renew_constraints.py

Resolves pyproject.toml (with its dev extra and build requirements) for every Python it allows,
writes the newest versions and their hashes to tools/constraints.txt, and prints what changed.
`make setup` installs exactly these. Indexes come from uv's own configuration and are not recorded.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "tools" / "constraints.txt"
HEADER = "# Written by `make constraints`, installed by `make setup`. Do not edit.\n"
PIN = re.compile(r"^(\S+)==([^\s;\\]+)", re.MULTILINE)


def main() -> None:
    before = _pins(CONSTRAINTS.read_text()) if CONSTRAINTS.exists() else {}
    # uv comes from .venv: the newest one is not needed to find newer versions
    command = [str(ROOT / ".venv/bin/uv"), "pip", "compile", "--quiet", "--universal", "--upgrade"]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--python-version", "3.10"]
    command += ["--extra", "dev", "pyproject.toml", "-"]
    build = re.search(r'^requires = \["([^"]+)"\]', (ROOT / "pyproject.toml").read_text(), re.M)
    assert build, "pyproject.toml has no build requirement"
    done = subprocess.run(
        command, input=build[1], text=True, stdout=subprocess.PIPE, cwd=ROOT, check=True
    )
    CONSTRAINTS.write_text(HEADER + done.stdout)
    after = _pins(done.stdout)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            print(f"{name}: {before.get(name, 'none')} -> {after.get(name, 'none')}")
    print(f"{len(after)} packages in {CONSTRAINTS.relative_to(ROOT)}")


def _pins(text: str) -> dict[str, str]:
    pins: dict[str, list[str]] = {}
    for name, version in PIN.findall(text):
        pins.setdefault(name, []).append(version)
    return {name: " or ".join(versions) for name, versions in pins.items()}


if __name__ == "__main__":
    main()
