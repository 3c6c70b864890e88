"""What a run recorded for comparison with another one: its inputs, its plan, its speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ipexctl.base.host_answer import read_record
from ipexctl.base.values import by
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.pace.rank_pace import HostPace
from ipexctl.run.pace.run_speed import Speed
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, Socket, asked_threads


@dataclass(frozen=True)
class HostInputs:
    """A host's properties when the run began, as run/outcome/run_inputs.py wrote them."""

    cpu: str
    cores: int | None
    quota: float | None = None
    governors: tuple[str, ...] = ()
    max_khz: int | None = None
    turbo: bool | None = None
    memory: int | None = None
    thp: str = ""
    kernel: str = ""
    load: float | None = None
    speed: int | None = None  # of its network interface, Mbit/s
    variables: tuple[tuple[str, str], ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    sockets: tuple[Socket, ...] = ()
    before: tuple[tuple[str, float], ...] = ()  # the phases before the run, and their seconds


@dataclass(frozen=True)
class GitState:
    """The state of the project on the controller, as project/git_state.py wrote it."""

    commit: str = ""
    branch: str = ""
    changed: tuple[tuple[str, str], ...] = ()  # how, path
    diff: str = field(default="", metadata=by(lambda raw: raw if isinstance(raw, str) else ""))


@dataclass(frozen=True)
class RunInputs:
    files: tuple[tuple[str, str], ...] | None = None
    tree: str = ""
    environment: str = ""
    packages: tuple[tuple[str, str], ...] = ()
    data: tuple[tuple[str, str], ...] = ()
    findings: tuple[tuple[str, str, str], ...] | None = None  # id, hosts, text
    git: GitState | None = None


@dataclass(frozen=True)
class RunRecord:
    """`hosts`: those that reported their properties. `inputs` None: the first host did not."""

    name: str
    plan: LaunchPlan
    hosts: Mapping[str, HostInputs]
    paces: Mapping[str, HostPace]
    inputs: RunInputs | None = None
    speed: Speed | None = None

    def plan_of(self, host: str) -> HostPlan | None:
        return next((host_plan for host_plan in self.plan.hosts if host_plan.host == host), None)

    def threads(self, host: str) -> int | None:
        """Return the threads of each rank on the host."""
        plan = self.plan_of(host)
        return (asked_threads(plan.rank_env) or plan.threads) if plan else None


def read_inputs(raw: Any) -> RunInputs | None:
    recorded = isinstance(raw, Mapping) and "packages" in raw
    return read_record(RunInputs, raw) if recorded else None
