"""Where a Python comes from that the version table has packages for."""

from __future__ import annotations

import re
from collections.abc import Collection

from ipexctl.doctor.report.cluster import install_command
from ipexctl.doctor.report.suggested_fix import Fix, do, ipexctl
from ipexctl.facts.facts import Facts

CARRIED = do(
    ipexctl("install", "--python-from", "FOLDER"),
    "   # copies a CPython to the hosts; docs/install.md",
)
# What a distribution calls itself: the Pythons that it has packages of, the first one first.
_OWN = (
    (r"Debian .*\b10\b", (7,)),
    (r"Debian .*\b11\b", (9,)),
    (r"Debian .*\b12\b", (11,)),
    (r"Debian .*\b13\b", (13,)),
    (r"Ubuntu 18\.04", (6,)),
    (r"Ubuntu 20\.04", (8,)),
    (r"Ubuntu 22\.04", (10,)),
    (r"Ubuntu 24\.04", (12,)),
    (r"(Red Hat|Rocky|AlmaLinux|CentOS|Oracle)\D* [89]\b", (11, 12)),
    (r"Amazon Linux 2023", (11,)),
    (r"Fedora", (11, 12)),
    (r"(SUSE|openSUSE)\D* 15\b", (11,)),
)


def missing(facts: Facts) -> Fix:
    """The command that brings the distribution's own Python, where none runs."""
    broken = any(re.match("/(usr/)?bin/", path) for path in dict(facts.tried))
    if not broken:
        return install_command(facts, debian="python3 python3-venv", rhel="python3", suse="python3")
    parts = [f"3.{minor}-{part}" for minor in _own(facts)[:1] for part in ("minimal", "stdlib")]
    libraries = [f"libpython{part}" for part in parts]
    debian = " ".join(["python3-minimal", *(f"python{p}" for p in parts[:1]), *libraries])
    return install_command(
        facts, debian=debian, rhel="python3 python3-libs", suse="python3 python3-base", again=True
    )


def _own(facts: Facts) -> tuple[int, ...]:
    return next((minors for name, minors in _OWN if re.match(name, facts.os_name)), ())


def fitting(facts: Facts, wanted: Collection[tuple[int, ...]]) -> Fix:
    """The command that brings one: the distribution's own package where that is one of `wanted`."""
    own = _own(facts)
    minor = next((minor for minor in own if (3, minor) in wanted), None)
    if minor is None:
        return CARRIED
    return install_command(
        facts, debian="python3 python3-venv", rhel=f"python3.{minor}", suse=f"python3{minor}"
    )
