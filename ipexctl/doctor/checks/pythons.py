"""Python interpreters: whether PyTorch has packages for one of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ipexctl.doctor.checks.registry import Evidence, cluster_check, host_check
from ipexctl.doctor.report.cluster import CheckedHosts, install_command
from ipexctl.doctor.report.finding import Fix, Severity, do, ipexctl_command
from ipexctl.facts.facts import Facts
from ipexctl.facts.pythons_facts import Python
from ipexctl.stack.version_table import StackRow, maintained_rows


@host_check(
    "PY-001",
    title="no Python 3",
    severity=Severity.FAIL,
    seen="no working Python 3: none was found, or python3 is another program",
    why="ipexctl creates the environment with a Python that is already on the host.",
)
def no_python(facts: Facts) -> Evidence | None:
    if facts.pythons:
        return None
    failures = [f"{path} does not run: {words}" for path, words in facts.tried]
    return Evidence("; ".join(failures) or f"not in {_LOOKED}", fix=install_python_fix(facts))


_LOOKED = "PATH, /usr/bin, /usr/local/bin, /opt/*/bin, ~/.pyenv or conda"


@cluster_check(
    "PY-002",
    title="no Python with PyTorch packages",
    severity=(Severity.FAIL, Severity.WARN),
    seen="every Python on the host is too old or too new for stock PyTorch (warn: those of the "
    "newest usable version lack _ssl, _bz2 or _sqlite3)",
    why="PyTorch is available only for certain versions of Python.",
)
def unusable_python(cluster: CheckedHosts) -> list[Evidence]:
    usable = pythons_of(cluster.rows)
    return [*_incomplete_pythons(cluster, usable)] + [
        Evidence(
            f"found {', '.join(map(_python_with_version, _newest_pythons(facts)))};"
            f" {_dotted_version(min(usable))} to {_dotted_version(max(usable))} have packages",
            host=facts.host,
            fix=fitting_python_fix(facts, usable),
        )
        for facts in cluster.hosts
        if facts.pythons and not any(python.version[:2] in usable for python in facts.pythons)
    ]


def _incomplete_pythons(
    cluster: CheckedHosts, supported: Collection[tuple[int, ...]]
) -> Iterator[Evidence]:
    """Report hosts whose newest usable Pythons all lack modules that packages import."""
    why = "torch, datasets or pip import these modules, and fail: No module named '_bz2'."
    title = "Python was built without modules that PyTorch or its packages need"
    for facts in cluster.hosts:
        fit = [p for p in facts.pythons if p.version[:2] in supported]
        newest = [p for p in fit if p.version[:2] == max(p.version[:2] for p in fit)]
        if newest and all(p.lacks for p in newest):
            text = ", ".join(
                f"{_python_with_version(p)} lacks {', '.join(p.lacks)}" for p in newest
            )
            fix, host = fitting_python_fix(facts, supported), facts.host
            yield Evidence(text, fix, severity=Severity.WARN, title=title, why=why, host=host)


OLDEST_PYTHON = (3, 9)  # used if there is no version table


def pythons_of(rows: Sequence[StackRow]) -> frozenset[tuple[int, ...]]:
    """Return the Python versions of the rows without IPEX; rows with IPEX are discontinued."""
    versions = {minor for row in maintained_rows(rows) for minor in row.pythons}
    return frozenset(versions or ((3, minor) for minor in range(OLDEST_PYTHON[1], 30)))


def _newest_pythons(facts: Facts) -> list[Python]:
    return sorted(facts.pythons, key=lambda python: python.version)[-4:]


def _python_with_version(python: Python) -> str:
    return f"{python.path} ({_dotted_version(python.version)})"


def _dotted_version(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


CARRIED = do(
    ipexctl_command("install", "--python-from", "FOLDER"),
    "   # copies a CPython to the hosts; docs/install.md",
)


# Patterns of distribution names -> the Python versions they package, the preferred one first.
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


def install_python_fix(facts: Facts) -> Fix:
    """Return the command that installs or repairs the distribution's own Python if none runs."""
    broken = any(re.match("/(usr/)?bin/", path) for path in dict(facts.tried))
    if not broken:
        return install_command(facts, debian="python3 python3-venv", rhel="python3", suse="python3")
    packages = [
        f"3.{minor}-{part}"
        for minor in _distribution_minors(facts)[:1]
        for part in ("minimal", "stdlib")
    ]
    libraries = [f"libpython{part}" for part in packages]
    debian = " ".join(["python3-minimal", *(f"python{p}" for p in packages[:1]), *libraries])
    return install_command(
        facts, debian=debian, rhel="python3 python3-libs", suse="python3 python3-base", again=True
    )


def _distribution_minors(facts: Facts) -> tuple[int, ...]:
    return next((minors for name, minors in _OWN if re.match(name, facts.os_name)), ())


def fitting_python_fix(facts: Facts, wanted: Collection[tuple[int, ...]]) -> Fix:
    """Return a command that installs a `wanted` version, from the distribution if it has one."""
    minors = _distribution_minors(facts)
    minor = next((minor for minor in minors if (3, minor) in wanted), None)
    if minor is None:
        return CARRIED
    return install_command(
        facts, debian="python3 python3-venv", rhel=f"python3.{minor}", suse=f"python3{minor}"
    )
