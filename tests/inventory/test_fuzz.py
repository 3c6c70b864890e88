"""Whatever is typed: an inventory or an explained refusal, and no host that nobody named."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipexctl.base.located_errors import Bad
from ipexctl.errors import InputError
from ipexctl.inventory.host_patterns import select_hosts
from ipexctl.inventory.hostfile_text import parse_hostfile, parse_hosts
from ipexctl.inventory.inventory import Inventory
from ipexctl.inventory.nodeset import expand_names
from ipexctl.local.settings_file import parse_settings
from tests.inventory.made import TEXTS, inventories

QUICK = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
LONGEST = 5.0  # seconds for a text of some hundred characters: it is a hang


def checked(found: Inventory, text: str) -> None:
    """No host appears that isn't there as written, or in a range that is there."""
    written = text.lower()
    ranges = [name.lower() for name in _ranges(text)]
    for host in found.hosts:
        name = host.name.lower()
        assert name in written or name in ranges, host
        assert not name.startswith("-")
        assert re.fullmatch(r"[a-z0-9_.:%-]+", name)
        assert 0 <= host.port <= 65535
        for field in (host.user, host.address, host.python, host.nic, host.root):
            assert not field.startswith("-")
            assert field.isprintable()
            assert " " not in field
    names = [host.name.lower() for host in found.hosts]
    assert len(names) == len(set(names)) <= 10_000


def _ranges(text: str) -> list[str]:
    """Everything that some run of name characters with brackets could mean."""
    found: list[str] = []
    for word in re.findall(r"[A-Za-z0-9._:%,/\[\]-]+", text):
        for start in {0, *(m.end() for m in re.finditer(r"[,:/]|ssh://", word))}:
            rest = word[start:]
            for end in [m.end() for m in re.finditer(r"\]", rest)]:
                tail = re.match(r"[A-Za-z0-9._-]*", rest[end:])
                for piece in {rest[:end], rest[: end + len(tail[0] if tail else "")]}:
                    try:
                        found += expand_names(piece)
                    except Bad:
                        continue
    return found


@QUICK
@given(TEXTS)
@pytest.mark.parametrize("source", ["hosts", "hosts.yaml"])
def test_any_text_as_a_file(source, text):
    began = time.monotonic()
    try:
        found = parse_hostfile(text, source)
    except InputError as e:
        assert e.what
    else:
        checked(found, text)
    assert time.monotonic() - began < LONGEST


@QUICK
@given(TEXTS)
def test_any_text_on_the_command_line(text):
    try:
        checked(parse_hosts((text,)), text)
    except InputError as e:
        assert e.what


@QUICK
@given(inventories(), TEXTS)
def test_any_pattern_selects_hosts_that_are_there(hosts, pattern):
    try:
        found = select_hosts(hosts, (pattern,), (), {"healthy": frozenset(["a", "b"])})
    except InputError as e:
        assert e.what
        return
    assert found.hosts
    assert [h for h in hosts.hosts if h in found.hosts] == list(found.hosts)


@QUICK
@given(inventories(groups=False), st.integers(0, 7))
def test_a_name_selects_that_host_and_an_exclusion_all_others(hosts, index):
    name = hosts.hosts[index % len(hosts.hosts)].name
    assert [h.name for h in select_hosts(hosts, (name,)).hosts] == [name]
    others = [h.name for h in hosts.hosts if h.name != name]
    if others:
        assert [h.name for h in select_hosts(hosts, (), (name,)).hosts] == others
        assert [h.name for h in select_hosts(hosts, (f"all,!{name}",)).hosts] == others


@QUICK
@given(TEXTS)
def test_any_text_as_settings(text):
    try:
        parse_settings(text, "ipexctl.toml")
    except InputError as e:
        assert e.what
