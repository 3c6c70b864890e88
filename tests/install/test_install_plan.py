"""An install's plan: made without changing anything, the same with --check and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import HostState
from ipexctl.common.env_answers import ProjectEnv
from ipexctl.errors import HostFailed
from ipexctl.install.host_steps import EnvOnHost, dry_run_recaps
from ipexctl.install.install import install, plan_for
from ipexctl.install.install_options import InstallOptions
from ipexctl.install.install_plan import HostInstall, Plan, Work, is_complete
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import Target
from ipexctl.terminal.progress import HostProgress, ProgressStep
from tests.install.conftest import Shop
from tests.made import env_state


@pytest.fixture
def asked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> InstallOptions:
    for name, value in shop.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(shop.folder / "state"))
    return InstallOptions(mpi="none", stack="stock", root=str(shop.root), folder=shop.work)


def planned(asked: InstallOptions) -> Plan:
    with Fleet(Target(), asked.root) as fleet:
        plan = plan_for(Work(asked, HostProgress()), fleet)
    assert plan
    return plan


def test_what_a_host_gets_is_known_before_anything_is_changed(shop, asked):
    plan = planned(asked)
    (part,) = plan.todo
    assert [str(change) for change in part.changes] == ["numpy 2.0 added", "torch 2.13.0+cpu added"]
    assert (part.needs_build, plan.to_send) == (True, plan.to_fetch)
    assert (plan.to_send > plan.lock.size, plan.folder) == (True, shop.work)  # and uv
    assert (shop.envs(), list(shop.work.iterdir())) == ([], [])
    (recap,) = dry_run_recaps(plan, agreed=True).values()
    assert (recap.state, recap.detail) == (HostState.CHANGED, f"would become {plan.lock.key}")


def test_the_plan_that_is_agreed_to_is_the_one_of_check(asked):
    seen: list[Plan] = []

    def no(plan: Plan) -> bool:
        seen.append(plan)
        return False

    install(Target(), asked, HostProgress(agreed=no))
    install(Target(), replace(asked, dry_run=True), HostProgress(agreed=no))
    assert seen == [planned(asked)] * 2


def test_after_it_nothing_is_left_to_do_and_a_rebuild_has_its_files(asked):
    report = install(Target(), asked, HostProgress())
    assert [r.state for r in report.recaps] == [HostState.CHANGED]
    plan = planned(asked)
    assert (plan.todo, plan.to_send) == ((), 0)
    again = planned(replace(asked, rebuild=True))
    assert (len(again.todo), again.to_send, again.to_fetch) == (1, 0, 0)


def test_what_a_host_says_while_it_works_is_a_sign_of_life(agent: Agent, tmp_path: Path) -> None:
    told: list[ProgressStep] = []
    env = EnvOnHost(agent, str(tmp_path), "0" * 16, ProjectEnv("id", "name", "me"), told.append)
    env._call("facts.probe.facts", {})  # it begins with an event
    assert told == []
    with pytest.raises(HostFailed):  # there is no environment
        env.prove(None, (), (), system=False)
    env._call("facts.probe.facts", {})
    assert told == [ProgressStep("here", "testing")] * 2


@pytest.mark.parametrize(
    ("state", "complete", "builds"),
    [
        (env_state(), False, True),
        (env_state(built=True, current="k"), False, False),
        (env_state(built=True, proved=True, current="old"), False, False),
        (env_state(built=True, proved=True, current="k"), True, False),
        (
            env_state(built=True, proved=True, current="k", changed=[("x", "1", "2", False)]),
            False,
            True,
        ),
    ],
)
def test_what_is_there_decides_what_is_done(state, complete, builds):
    part = HostInstall(Host("a"), state, is_complete(state, "k"))
    assert (part.complete, part.needs_build) == (complete, builds)
    again = HostInstall(Host("a"), state, is_complete(state, "k", rebuild=True), rebuild=True)
    assert (again.complete, again.needs_build) == (False, True)
