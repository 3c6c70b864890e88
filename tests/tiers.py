"""The tier of each test, by what it needs, and what of them did not run.

`pure` starts nothing, `local` starts processes on this machine, `installed` makes environments of
stand-ins here, `lab` has practice hosts (root), `soak` takes long: fault tables and kill loops.
`make check` runs pure and local, `make test` all but soak, `make soak` the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from tests.room import say_full_disk

# From the slowest to the fastest: the order in which they start.
TIERS = {
    "soak": "soak tests",
    "lab": "practice-cluster tests",
    "installed": "tests that install or run here",
    "local": "tests that start processes here",
    "pure": "pure tests",
}
LONGEST = "tests/run_lab/test_mpi_lab.py"  # makes the homes that other files wait for
# their tests wait more than they compute, one after the other for minutes
APART = frozenset({"tests/run_lab/test_attach_lab.py"})
INSTALLS = frozenset({"shop", "builder", "world", "here", "dist"})
STARTS = frozenset({"agent", "sshd", "site", "port", "server"})
STARTERS = {"subprocess", "LocalTransport", "PipeChannel"}  # names in the test's module
LEFT_OUT: Counter[str] = Counter()  # deselected, by tier


def tier_of(item: pytest.Item) -> str:
    names = frozenset(getattr(item, "fixturenames", ()))
    if item.get_closest_marker("soak"):
        return "soak"
    if "lab_root" in names or item.get_closest_marker("lab"):
        return "lab"
    if names & INSTALLS:
        return "installed"
    starts = names & STARTS or STARTERS & vars(getattr(item, "module", None)).keys()
    return "local" if starts else "pure"


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(tier_of(item))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    waits = {item.path for item in items if "installed" in getattr(item, "fixturenames", ())}

    def order(item: pytest.Item) -> tuple[bool, int, bool, bool]:
        later = not item.nodeid.startswith(LONGEST)
        alone = item.nodeid.partition("::")[0] in APART
        return later, list(TIERS).index(tier_of(item)), item.path in waits, not alone

    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One process runs the tests of a file, whose fixtures would be made in every process else."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False  # by the number of tests in a file
    return ByFile(config, log)


def group_of(nodeid: str) -> str:
    """By file; in files about each MPI also by that. Some files read the same machines.

    Long tests that share no fixture of their file are groups of their own.
    """
    file, _, rest = nodeid.partition("::")
    if file in APART:
        return nodeid
    mpi = re.search(r"\[(intel|mpich|openmpi)\b", rest) if "/run/" in file else None
    same = "_recorded" in file or "/plan/" in file
    return "machines" if same else f"{file} {mpi[1] if mpi else ''}"


def pytest_deselected(items: list[pytest.Item]) -> None:
    LEFT_OUT.update(tier_of(item) for item in items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_out"] = dict(LEFT_OUT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every process of pytest-xdist leaves out the same ones."""
    LEFT_OUT.update(Counter(getattr(node, "workeroutput", {}).get("left_out", {})) - LEFT_OUT)


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int) -> None:
    skipped: Counter[tuple[str, str]] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        tier = next((t for t in TIERS if t in getattr(report, "keywords", ())), "")
        if tier in ("soak", "lab") and isinstance(report.longrepr, tuple):
            skipped[tier, report.longrepr[2].removeprefix("Skipped: ")] += 1
    words = terminalreporter.config.getoption("-k")
    for tier, count in LEFT_OUT.items():
        where = "they are in `make soak`" if tier == "soak" else "they are in `make test`"
        where = f"-k {words}" if words else where
        terminalreporter.write_line(f"{count} {TIERS[tier]} did NOT run: {where}", yellow=True)
    for (tier, why), count in skipped.items():
        terminalreporter.write_line(f"{count} {TIERS[tier]} did NOT run: {why}", yellow=True)
    if exitstatus and (full := say_full_disk()):
        terminalreporter.write_line(full, yellow=True)
