"""Fixtures that several test folders share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from ipexctl.facts.facts import Facts
from ipexctl.inventory.inventory import Host
from ipexctl.lab import Lab, LabSpec
from ipexctl.lab.cluster import rung_limits
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport
from tests.facts.recorded import read_all
from tests.practice_hosts import (  # noqa: F401  fixtures, hooks of pytest
    ONE_MACHINE,
    LabRoot,
    homes,
    installed,
    installed_lab,
    pytest_addoption,
    rung,
    start_lab,
)
from tests.room import pytest_sessionstart  # noqa: F401  (a hook of pytest)
from tests.tiers import (  # noqa: F401  hooks of pytest
    pytest_collection_modifyitems,
    pytest_deselected,
    pytest_itemcollected,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
    pytest_xdist_make_scheduler,
)

MakeLab = Callable[[LabSpec], Lab]


def pytest_configure() -> None:
    """`make test &` in a script ignores Ctrl-C, and so would all that tests start and interrupt.
    `python3` may be a script of pyenv, which takes longer to start than an agent."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    python = os.path.realpath(sys.executable)
    os.environ["PATH"] = f"{os.path.dirname(python)}:{os.environ['PATH']}"


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A test whose name has compressed data, which holds the time, has another in each worker."""
    return argname if isinstance(val, bytes) and len(val) > 20 else None


@pytest.fixture
def agent() -> Iterator[Agent]:
    """The real agent, on this machine."""
    agent = start_host_agent(LocalTransport(), Host("here", local=True))
    yield agent
    agent.close()


@pytest.fixture(scope="session")
def recorded() -> dict[str, Facts]:
    """Machines that others recorded, as the agent sees them."""
    return read_all() or pytest.skip("the recorded machines are not beside this checkout")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """On the flat rung only tests that say `any_rung` have practice hosts. Before any fixture is
    made: a host of that rung is this machine."""
    if "lab_root" not in getattr(item, "fixturenames", ()) or item.get_closest_marker("any_rung"):
        return
    if rung(item.config) == rung_limits.FLAT:
        pytest.skip(ONE_MACHINE)


@pytest.fixture(scope="session")
def lab_root(request, tmp_path_factory: pytest.TempPathFactory) -> LabRoot:
    return LabRoot(tmp_path_factory.mktemp("labs"), rung(request.config))


@pytest.fixture(scope="session")
def namespaces(lab_root) -> None:
    """For tests among others that run on any rung."""
    if lab_root.rung == rung_limits.FLAT:
        pytest.skip(ONE_MACHINE)


@pytest.fixture(scope="session")
def full_rung(lab_root) -> None:
    """For tests that need what only root can make: other accounts, loop devices, direct ways in."""
    if lab_root.rung != rung_limits.FULL:
        pytest.skip(f"needs practice hosts of the full rung, not of the {lab_root.rung} one")


@pytest.fixture(scope="session")
def lab3(lab_root) -> Iterator[Lab]:
    """Three plain hosts for the whole test run: leave them as you found them."""
    lab = start_lab(LabSpec.plain(3, name="lab3"), lab_root)
    yield lab
    lab.down()


@pytest.fixture
def make_lab(lab_root) -> Iterator[MakeLab]:
    """Start labs of any shape; they end with the test, or with pytest."""
    labs: list[Lab] = []

    def make(spec: LabSpec) -> Lab:
        labs.append(start_lab(spec, lab_root))
        return labs[-1]

    yield make
    for lab in labs:
        if lab.is_up():
            lab.down()
