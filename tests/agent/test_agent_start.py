"""What stands between the login and the agent: wrappers, and start-up files that read its input."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ipexctl.errors import HostFailed
from ipexctl.hosts.agent_start import connect
from ipexctl.hosts.transport import LocalTransport
from ipexctl.verbs.doctor.probe_host import probe
from tests.agent.test_agent import HERE, Through, write_script


def test_a_wrapper_is_a_python_and_so_is_what_it_starts(tmp_path):
    """Wherever that is, and whatever it is called."""
    real = tmp_path / "lib" / "interpreter"
    real.parent.mkdir()
    shutil.copy(Path(sys.executable).resolve(), real)
    wrapper = write_script(tmp_path / "python3", f'exec {real} "$@"')
    agent = connect(LocalTransport(), HERE, python=str(wrapper))
    try:
        assert (agent.hello.started, agent.hello.path) == (str(wrapper), str(real))
        assert str(real) in [p.path for p in probe(agent).pythons]
    finally:
        agent.close()


def test_a_shell_that_lost_the_input_is_told_from_a_python_that_fails(tmp_path):
    with pytest.raises(HostFailed, match="reads the input of commands") as caught:
        connect(Through("read line"), HERE)
    assert "before Python read it" in caught.value.why
    with pytest.raises(HostFailed, match="reads the input of commands"):
        connect(Through("exec </dev/null"), HERE)
