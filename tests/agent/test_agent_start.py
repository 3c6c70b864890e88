"""What stands between the login and the agent: wrappers, and start-up files that read its input."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ipexctl.install.install import _with_named
from ipexctl.machines.agent_start import connect
from ipexctl.machines.probe_host import probe
from ipexctl.machines.suggested_commands import other_pythons
from ipexctl.machines.wire.transport import LocalTransport
from tests.agent.test_agent import HERE, Through, write_script
from tests.refused import refused


def test_a_wrapper_is_a_python_and_so_is_what_it_starts(tmp_path):
    """Wherever that is, and whatever it is called."""
    real = tmp_path / "lib" / "interpreter"
    real.parent.mkdir()
    shutil.copy(Path(sys.executable).resolve(), real)
    wrapper = write_script(tmp_path / "python3", f'exec {real} "$@"')
    with closing(connect(LocalTransport(), HERE, python=str(wrapper))) as agent:
        assert (agent.hello.started, agent.hello.path) == (str(wrapper), str(real))
        facts = probe(agent)
        assert str(real) in [p.path for p in facts.pythons]
        assert str(wrapper) in [p.path for p in _with_named(facts, agent, str(wrapper)).pythons]
        assert list(other_pythons([replace(agent, host=replace(HERE, python=str(wrapper)))])) == []


def test_a_shell_that_lost_the_input_is_told_from_a_python_that_fails(tmp_path):
    with refused("startup-file-reads-input") as caught:
        connect(Through("read line"), HERE)
    assert "Python" in caught.value.why
    with refused("startup-file-reads-input"):
        connect(Through("exec </dev/null"), HERE)
