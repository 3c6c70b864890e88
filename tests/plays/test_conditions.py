"""`when` on a host with these facts and variables."""

import pytest

from ipexctl.base.yaml_nodes import Mapping, Node, read_yaml
from ipexctl.errors import InputError
from ipexctl.play.text.conditions import check_condition, check_names, condition_holds, needs_facts
from ipexctl.play.text.interpolation import Scope

HOST = {
    "host": "node01", "fact.isa": "avx512", "fact.os": "debian", "fact.memory": "64",
    "fact.kernel": "6.1.0-18-amd64", "site": "east", "torch": "2.13", "size": "5",
}  # fmt: skip


def _when(text: str) -> Node:
    node = read_yaml(f"when: {text}", "play.yaml", "a play")
    assert isinstance(node, Mapping)
    when = node.get("when")
    assert when is not None
    check_condition(when)
    check_names(when, dict.fromkeys(("site", "torch", "size", "unset")))
    return when


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("{os: debian}", True),
        ("{os: ubuntu}", False),
        ("{os: [ubuntu, debian]}", True),
        ("{os: []}", False),
        ("{os: {not: debian}}", False),
        ("{os: {not: [ubuntu, rhel]}}", True),
        ("{host: node01}", True),
        ("{host: {not: node01}}", False),
        ("{site: east, os: debian}", True),
        ("{site: west, os: debian}", False),
        ("{site: '${site}'}", True),
        ("{memory: {min: 64}}", True),
        ("{memory: {min: 65}}", False),
        ("{memory: {min: 8, max: 64}}", True),
        ("{memory: {min: 64.0}}", True),
        ("{memory: {min: 8, not: 64}}", False),
        ("{memory: {max: 9}}", False),  # numbers, not letters
        ("{isa: {min: avx2}}", True),
        ("{isa: {min: avx512}}", True),
        ("{isa: {min: amx}}", False),
        ("{isa: {max: avx512}}", True),
        ("{isa: {max: avx2}}", False),
        ("{isa: {min: neon}}", False),
        ("{kernel: {min: 5.16}}", True),
        ("{kernel: {min: 6.1}}", True),
        ("{kernel: {min: 6.1.0}}", True),
        ("{kernel: {min: 6.10}}", False),
        ("{kernel: {max: 6.1}}", True),
        ("{torch: {min: 2.9}}", True),
        ("{size: {min: 5.0}}", True),
        ("{size: {max: 5.0}}", True),
        # what a host did not tell equals nothing
        ("{nic: eth0}", False),
        ("{nic: {not: eth0}}", True),
        ("{nic: {not: ''}}", True),
        ("{cores: {min: 1}}", False),
        ("{cores: {max: 1}}", False),
        ("{unset: ''}", False),
    ],
)
def test_a_condition(text: str, answer: bool) -> None:
    assert condition_holds(_when(text), Scope(HOST)) is answer


def test_no_condition_holds() -> None:
    assert condition_holds(None, Scope({}))


@pytest.mark.parametrize(
    ("have", "answer"),
    [("5.14.0-362.8.1.el9_3.x86_64", True), ("5.4.0.el8", False), ("6.6.87.2-microsoft", True)],
)
def test_kernels_of_other_distributions(have: str, answer: bool) -> None:
    assert condition_holds(_when("{kernel: {min: 5.10}}"), Scope({"fact.kernel": have})) is answer


def test_a_variable_that_is_no_number() -> None:
    with pytest.raises(InputError) as e:
        condition_holds(_when("{site: {min: 5}}"), Scope(HOST))
    said = "play.yaml:1:14: min compares numbers and versions, but site is 'east'"
    assert e.value.what == said


def test_facts_are_asked_for_where_a_condition_has_them() -> None:
    assert needs_facts(_when("{site: a, isa: amx}"))
    assert not needs_facts(_when("{site: a, host: b}"))
    assert not needs_facts(None)
