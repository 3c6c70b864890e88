"""Hosts whose Python is like ours get modules as we have compiled them."""

from __future__ import annotations

import marshal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from ipexctl.errors import HostFailed
from ipexctl.inventory.inventory import Host
from ipexctl.machines import agent_sources
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.wire.transport import LocalTransport


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # a traceback shows the lines of files that are found from here
    forget_sources()
    yield tmp_path / "cache/ipexctl/agents"
    forget_sources()


def forget_sources() -> None:
    for function in vars(agent_sources).values():
        if clear := getattr(function, "cache_clear", None):
            clear()


OURS = Host("here", local=True, python=sys.executable)


def source_arrives(agent) -> bool:
    """The lines of our own failure are there only with the sources."""
    with pytest.raises(HostFailed) as caught:
        agent.call("facts.probe.nothing")
    assert 'File "ipexctl/remote/main.py", line ' in caught.value.why
    return "operation(header" in caught.value.why


def test_a_python_like_ours_gets_what_we_have_compiled(cache) -> None:
    with closing(start_host_agent(LocalTransport(), OURS, bytecode=True)) as agent:
        assert agent.hello.bytecode == MAGIC_NUMBER.hex()
        assert probe_facts(agent).host == "here"
        assert not source_arrives(agent)
    file = cache / f"{sys.implementation.cache_tag}.marshal"
    assert file.stat().st_mode & 0o777 == 0o600
    stamp, code = marshal.loads(file.read_bytes())
    assert code.keys() == (agent_sources.module_sources() | agent_sources.library_sources()).keys()
    assert agent_sources.compiled_modules.__wrapped__() == code  # read again, not made again


def test_another_python_than_was_expected_gets_sources(cache, monkeypatch) -> None:
    monkeypatch.setattr(agent_sources, "MAGIC_NUMBER", b"\0\0\r\n")
    with closing(start_host_agent(LocalTransport(), OURS, bytecode=True)) as agent:
        assert probe_facts(agent).host == "here"
        assert source_arrives(agent)


def test_code_that_others_could_replace_is_not_sent(cache) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert agent_sources.compiled_modules() == {}
    with closing(start_host_agent(LocalTransport(), OURS, bytecode=True)) as agent:
        assert source_arrives(agent)


def test_a_changed_module_is_compiled_again(cache, monkeypatch) -> None:
    before = agent_sources.compiled_modules()
    stamp = agent_sources._sources_stamp()
    monkeypatch.setattr(agent_sources, "_sources_stamp", lambda: [*stamp, "changed"])
    texts = {**agent_sources.module_sources(), "main": "CHANGED = 1\n"}
    monkeypatch.setattr(agent_sources, "module_sources", lambda: texts)
    after = agent_sources.compiled_modules.__wrapped__()
    assert {n for n in after if after[n] != before[n]} == {"main"}


def test_many_hosts_at_once_read_the_sources_once(cache, monkeypatch) -> None:
    read, rglob = [], Path.rglob

    def slowly(folder: Path, pattern: str):
        read.append(folder)
        time.sleep(0.05)
        return rglob(folder, pattern)

    monkeypatch.setattr(Path, "rglob", slowly)
    with ThreadPoolExecutor(8) as hosts:
        needed = list(hosts.map(agent_sources.modules_for_op, ["facts.probe.facts"] * 8))
    assert len(read) == 2  # remote/ and common/
    assert needed[0] and set(needed) == {needed[0]}


def test_pysyncobj_goes_only_to_hosts_of_runs_that_may_start_again() -> None:
    assert agent_sources.library_sources().keys() <= agent_sources.modules_for_op(
        "restart.attempts.begin"
    )
    for op in ("run.stand_by.begin", "facts.probe.facts", "run.run_list.list"):
        assert not agent_sources.library_sources().keys() & agent_sources.modules_for_op(op)
