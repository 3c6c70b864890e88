"""What a run recorded for comparison with another one: its inputs, its plan, its speed."""

from __future__ import annotations

from collections.abc import Mapping

from ipexctl.common.run_inputs import HostInputs, RunInputs
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.pace.rank_pace import HostPace
from ipexctl.run.pace.run_speed import Speed
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, asked_threads


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
