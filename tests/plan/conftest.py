"""The shapes of hosts.py as facts, each read once by the real probe from a tree of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ipexctl.facts.facts import Facts
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.wire.transport import LocalTransport
from tests.plan.hosts import SHAPES

Shape = Callable[[str], Facts]


@pytest.fixture(scope="session")
def shape() -> Iterator[Shape]:
    agent = start_host_agent(LocalTransport(), Host("here", local=True))
    known: dict[str, Facts] = {}

    def facts(name: str) -> Facts:
        if name not in known:
            with TemporaryDirectory() as folder:  # of up to 2,000 files
                tree = SHAPES[name].write(Path(folder))
                known[name] = probe_facts(agent, fs=str(tree))
        return known[name]

    yield facts
    agent.close()
