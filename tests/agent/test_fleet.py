"""One fleet for every command: what becomes of hosts that are lost, of errors, of connections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import HostDown, HostResult, HostState, PerHost
from ipexctl.common.env_answers import ProjectEnv
from ipexctl.common.removal_answers import EnvsKept
from ipexctl.doctor.report.report import Report
from ipexctl.env.env import EnvListing, list_envs
from ipexctl.errors import HostFailed, HostKeyChanged, HostKeyUnknown, InputError, Unreachable
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.last_outcome import last_states
from ipexctl.machines import fleet as fleet_module
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import Target
from ipexctl.terminal.recap_lines import host_lines

A, B, C = (Host(name, local=True) for name in "abc")
HOSTS = Inventory((A, B, C), "the test")
SAID = {
    "Connection refused": (4, "the host refused the connection"),
    "No ED25519 host key is known for b": (4, "its host key is not trusted yet"),
    "IDENTIFICATION HAS CHANGED": (4, "its host key has changed"),
    "Permission denied (publickey)": (4, "the login failed"),
}


def fleet(target: Target | None = None) -> Fleet:
    return Fleet(target or Target(), hosts=HOSTS)


def fail_on(*names: str):
    def work(host: Host) -> str:
        if host.name in names:
            raise HostFailed(f"{host.name}: no space", why="full", hint="ipexctl env rm")
        return host.name.upper()

    return work


# --- the ssh program, in place of which a script stands that reaches `a` and not `b` -------------


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A target of two hosts, and a way to say what ssh says of the second one."""
    ssh, said = tmp_path / "bin" / "ssh", tmp_path / "said"
    ssh.parent.mkdir()
    ssh.write_text(
        '#!/bin/sh\n[ "$1" = -G ] && exit\ncase " $* " in *" b "*) '
        f'cat {said} >&2; exit 255;; esac\nfor last; do :; done; exec sh -c "$last"\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "root").mkdir(mode=0o700)

    def target(words: str) -> tuple[Target, str]:
        said.write_text(f"{words}\n")
        return Target(hosts=("a", "b"), transport="openssh"), str(tmp_path / "root")

    return target


@pytest.mark.parametrize(("said", "expected"), SAID.items(), ids=SAID)
def test_a_host_that_cannot_be_logged_in_to_ends_every_command_with_4(half, said, expected):
    code, what = expected
    target, root = half(said)
    ls = list_envs(target, root)
    assert [(r.host, r.state, r.detail) for r in ls.recaps] == [
        ("b", HostState.UNREACHABLE, f"b: {what}")
    ]
    assert host_lines(ls.recaps)[0].plain == f"b  unreachable  {what}"
    assert ls.exit_code == code


# --- one table -----------------------------------------------------------------------------------


NO_LOCK = EnvChoice(ProjectEnv("", "", ""))


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        *((e("n: what"), "unreachable", 4) for e in (Unreachable, HostKeyUnknown, HostKeyChanged)),
        (Unreachable("n: what", slug="connection-refused"), "unreachable", 4),
        (HostFailed("n: what"), "failed", 1),
        (HostFailed("n: what", slug="no-space"), "failed", 1),
    ],
)
def test_every_command_takes_a_lost_host_alike(error, state, code):
    down = HostDown.of("n", error)
    assert down.slug == error.slug
    recap = HostResult("n", down.state)
    report = Report((Host("n"),), (), (down,), (), (), 0.0)
    assert (report.state("n"), recap.state.value) == (state, state)
    outcomes: list[Report | PerHost] = [report, EnvListing((), (recap,), NO_LOCK)]
    assert [outcome.exit_code for outcome in outcomes] == [code] * 2


@pytest.mark.parametrize("what", ["n1: no answer", "no answer"])
def test_a_line_about_a_host_names_it_once(what):
    assert HostDown("n1", "unreachable", what).brief == "no answer"
    assert HostDown("n", "unreachable", "n1: no answer").brief == "n1: no answer"


def test_nobody_else_connects_to_hosts():
    package = Path(fleet_module.__file__).parent.parent
    opens = re.compile(r"agent import .*\bconnect\b|target import .*\bover_ssh|LocalTransport\(")
    found = [p.stem for p in sorted(package.rglob("*.py")) if opens.search(p.read_text("utf-8"))]
    assert found == ["fleet"]


# --- the fleet itself ----------------------------------------------------------------------------


def test_a_host_that_was_lost_is_not_asked_again():
    hosts = fleet()
    assert hosts.map_hosts(fail_on("b")) == {A: "A", C: "C"}
    assert hosts.alive == [A, C]
    assert hosts.map_hosts(fail_on("c")) == {A: "A"}
    assert [down.host for down in hosts.failures] == ["b", "c"]


def test_every_host_has_one_recap_in_the_order_of_the_hostfile():
    hosts = fleet(Target(hosts=("a", "b", "c")))
    hosts.map_hosts(fail_on("b"))
    recaps = hosts.recaps({C: HostResult("c", HostState.OK), A: HostResult("a", HostState.CHANGED)})
    assert [(r.host, r.state) for r in recaps] == [
        ("a", HostState.CHANGED),
        ("b", HostState.FAILED),
        ("c", HostState.OK),
    ]
    assert (recaps[1].detail, recaps[1].notes) == (
        "b: no space",
        ("full", "try: ipexctl env rm -H a,b,c"),
    )


def test_what_it_remembers_is_what_last_failed_means(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    hosts = fleet()
    hosts.map_hosts(fail_on("b"))
    hosts.remember_recaps(hosts.recaps({A: HostResult("a", HostState.OK)}))
    assert last_states(HOSTS)["last-failed"] == {"b"}


def test_connections_end_with_the_fleet_and_its_error_suggests_what_works():
    target = Target(hosts=("a", "b", "c"))
    with pytest.raises(InputError) as raised, fleet(target) as hosts:
        agents = hosts.map_hosts(hosts.connect)
        answer = hosts.call(A, "remove.root_upkeep.list", root="/nothing", sizes=False)
        assert answer.read(EnvsKept) == EnvsKept("/nothing")
        hosts.disconnect(B)
        assert set(hosts.agents) == {A, C}
        raise InputError("no", hint="ipexctl install")
    assert raised.value.hint == "ipexctl install -H a,b,c"
    assert [agent.channel.exit_status(0.0) is None for agent in agents.values()] == [False] * 3
