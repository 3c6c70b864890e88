"""The report's text and its exit code, from reports made up here."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from ipexctl.core.checks import run_all
from ipexctl.core.checks.cluster import Cluster
from ipexctl.core.model import Facts, Host, HostDown
from ipexctl.ui.doctor import show
from ipexctl.verbs.doctor import Report, document
from tests import made
from tests.facts.machines import AMX


def host_facts(name: str, address: str) -> Facts:
    facts = made.facts(name, address=address)
    cpu = replace(facts.cpu, flags=frozenset(AMX.split()))
    return replace(facts, cpu=cpu, net=replace(facts.net, hostname_addresses=(address,)))


def report(*hosts: Facts | HostDown) -> Report:
    facts = tuple(h for h in hosts if isinstance(h, Facts))
    return Report(
        hosts=tuple(Host(h.host) for h in hosts),
        facts=facts,
        down=tuple(h for h in hosts if isinstance(h, HostDown)),
        peers=(),
        findings=run_all(Cluster(facts)),
        seconds=0.5,
        trust="ipexctl trust -f hosts",
    )


def text(made_report: Report, *, width: int | None = 80, verbose: bool = False) -> str:
    out = io.StringIO()
    show(made_report, out, width=width, verbose=verbose)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


A, B, C = (host_facts(f"node{i:02d}", f"10.0.0.{i}") for i in (1, 2, 3))
NO_PYTHON = replace(B, pythons=(), os_ids=("debian",))
DOWN = HostDown("node03", "unreachable", "node03: no route", "errno 113", "ping node03")


def test_equal_hosts_are_one_row():
    assert text(report(A, B, C)) == (
        "3 of 3 hosts can train · 0.5 s\n"
        "\n"
        "host         state  cpu  cores  memory  python  address\n"
        "node[01-03]  ok     amx      4  16 GiB  3.11    10.0.0.[1-3]"
    )


def test_a_wide_terminal_shows_more_of_each_host():
    header = text(report(A), width=200).splitlines()[2].split()
    assert header[-3:] == ["nic", "processor", "system"]


def test_each_trouble_is_told_once_with_its_hosts_and_its_command():
    shown = text(report(A, NO_PYTHON, DOWN))
    assert shown.splitlines()[0] == "1 of 3 hosts can train · 1 unreachable · 1 failed · 0.5 s"
    assert shown.partition("\n\n")[2].partition("\n\n")[2] == (
        "unreachable  node03: no route\n"
        "  why errno 113\n"
        "  fix ping node03\n"
        "\n"
        "fail PY-001  node02: no Python 3\n"
        "  seen not in PATH, /usr/bin, /usr/local/bin, /opt/*/bin, ~/.pyenv or conda\n"
        "  fix sudo apt-get install -y python3 python3-venv"
    )


def test_why_is_told_when_asked():
    assert "  why The stack is installed into" in text(report(NO_PYTHON), verbose=True)
    assert "The stack is installed into" not in text(report(NO_PYTHON))


def test_all_unknown_keys_are_one_message_with_one_command():
    down = [
        HostDown(n, "host-key-unknown", f"{n}: unknown", f"ssh-ed25519 SHA256:{n}", f"trust {n}")
        for n in ("node02", "node03")
    ]
    assert text(report(A, *down)).partition("\n\n")[2].partition("\n\n")[2] == (
        "unreachable  node[02-03]: nobody has vouched for these host keys yet\n"
        "  key node02: ssh-ed25519 SHA256:node02\n"
        "  key node03: ssh-ed25519 SHA256:node03\n"
        "  fix ipexctl trust -f hosts   (compare the fingerprints first)"
    )


def test_hosts_that_cannot_train_together_are_not_called_good():
    arm = replace(B, cpu=replace(B.cpu, arch="aarch64", flags=frozenset({"asimd"})))
    first = text(report(A, arm)).splitlines()[0]
    assert first.startswith("2 of 2 hosts can train, but not together")


@pytest.mark.parametrize("width", [80, 200, None])
def test_no_markup_and_no_escape_of_a_host_reaches_the_terminal(width):
    name = "[bold]node\x1b[31m[/bold]"
    hostile = replace(A, host=name, os_name="\x1b]0;x\x07[link=x]", pythons=())
    shown = text(report(hostile), width=width)
    assert "\x1b" not in shown and "\x07" not in shown
    assert "[bold]node" in shown


@pytest.mark.parametrize("width", [80, 200])
def test_nothing_but_commands_is_wider_than_the_terminal(width):
    hosts = [host_facts(f"a-rather-long-node-name-{i:03d}", f"10.20.30.{i}") for i in range(1, 40)]
    hosts[3] = replace(hosts[3], pythons=(), mem=replace(hosts[3].mem, shm_total=1, shm_free=1))
    lines = text(report(*hosts), width=width, verbose=True).splitlines()
    assert [x for x in lines if len(x) > width and not x.startswith("  fix ")] == []


@pytest.mark.parametrize(
    ("hosts", "code", "states"),
    [
        ((A, B), 0, ["ok", "ok"]),
        ((A, NO_PYTHON), 1, ["ok", "fail"]),
        ((NO_PYTHON, DOWN), 4, ["fail", "unreachable"]),
        ((A, replace(B, mem=replace(B.mem, shm_free=0))), 0, ["ok", "warn"]),
        ((A, HostDown("node02", "host-failed", "x")), 1, ["ok", "failed"]),
        ((A, HostDown("node02", "host-key-changed", "x")), 4, ["ok", "unreachable"]),
        ((A, HostDown("node02", "host-key-unknown", "x")), 4, ["ok", "unreachable"]),
    ],
)
def test_states_and_the_exit_code_follow_the_worst(hosts, code, states):
    judged = report(*hosts)
    assert (judged.exit_code, [judged.state(h.name) for h in judged.hosts]) == (code, states)


def test_the_document_is_json_with_a_version():
    told = json.loads(json.dumps(document(report(A, NO_PYTHON, DOWN)), allow_nan=False))
    assert (told["schema_version"], told["command"], told["exit_code"]) == (1, "doctor", 4)
    assert [(h["name"], h["address"], h["state"], h["isa"]) for h in told["hosts"]] == [
        ("node01", "10.0.0.1", "ok", "amx"),
        ("node02", "10.0.0.2", "fail", "amx"),
        ("node03", "", "unreachable", ""),
    ]
    assert [f["id"] for f in told["hosts"][1]["findings"]] == ["PY-001"]
    assert told["hosts"][2]["facts"] is None
    assert told["hosts"][2]["error"] == {
        "host": "node03",
        "slug": "unreachable",
        "what": "node03: no route",
        "why": "errno 113",
        "hint": "ping node03",
    }
