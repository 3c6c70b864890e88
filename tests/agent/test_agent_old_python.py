"""What runs on the hosts runs on their old Pythons."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from ipexctl.common.reach_answers import HostsTried, HostTried
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import facts_request, probe_facts, read_facts_reply
from ipexctl.machines.wire.transport import LocalTransport
from tests.facts.machines import MACHINES
from tests.processes import interpreter

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("minor", range(6, 15))
def test_the_probe_works_on_an_old_python(minor, tmp_path):
    with closing(
        start_host_agent(LocalTransport(), Host("here", local=True), python=interpreter(minor))
    ) as agent:
        assert agent.hello.python[:2] == (3, minor)
        ask = facts_request("~/.ipexctl", listen=True)
        facts, port = read_facts_reply(agent, agent.start(ask.op, ask.args), time.monotonic())
        tree = MACHINES["two sockets with SMT"].write(tmp_path)
        recorded = probe_facts(agent, fs=str(tree))
        targets = [["self", "127.0.0.1", port]]
        done = agent.call("facts.read_reachability.connect", {"targets": targets}).done
        assert done.read(HostsTried).results == [HostTried("self")]
    assert any(p.version[:2] == (3, minor) and len(p.version) == 3 for p in facts.pythons)
    assert len(recorded.cpu.cpus) == 224


def test_all_of_remote_is_written_for_python_3_6():
    pytest.importorskip("vermin")
    run = [sys.executable, "-c", "import sys; from vermin.main import main; sys.exit(main())"]
    argv = [*run, "-q", "-t=3.6-", "--no-tips", "ipexctl/remote", "ipexctl/common"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
