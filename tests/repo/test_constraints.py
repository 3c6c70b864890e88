"""tools/constraints.txt installs what pyproject.toml asks for, on each Python it allows."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ipexctl.base.toml import loads

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.10.0", "3.11.0", "3.12.0", "3.13.0", "3.14.0")


def _pinned(python: str) -> dict[str, str]:
    environment = {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    lines = (ROOT / "tools" / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line.rstrip(" \\")) for line in lines if line[:1].isalnum()]
    here = [pin for pin in pins if not pin.marker or pin.marker.evaluate(environment)]
    versions = {pin.name: next(iter(pin.specifier)).version for pin in here}
    assert len(versions) == len(here), "one version of each package"
    return versions


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_is_pinned_within_its_range(python: str) -> None:
    project = loads((ROOT / "pyproject.toml").read_text())
    pinned = _pinned(python)
    asked = project["project"]["dependencies"]
    asked += project["project"]["optional-dependencies"]["dev"]
    asked += project["build-system"]["requires"]
    for requirement in map(Requirement, asked):
        if requirement.marker and not requirement.marker.evaluate(
            {"python_version": python.rpartition(".")[0], "python_full_version": python}
        ):
            continue
        version = pinned[requirement.name.lower()]
        assert requirement.specifier.contains(version), f"{requirement}: {version}"


def test_every_pin_has_hashes_and_no_line_has_an_address() -> None:
    entries = (ROOT / "tools" / "constraints.txt").read_text().split("\n")
    for line, after in zip(entries, entries[1:], strict=False):
        if line[:1].isalnum():
            assert after.startswith("    --hash=sha256:"), line
        assert "://" not in line
