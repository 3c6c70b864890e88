"""What a run recorded for comparison with another one: its inputs, its plan, its speed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ipexctl.base.host_answer import read_record
from ipexctl.base.values import by
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.pace.rank_pace import HostPace
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, Socket, asked_threads

WINDOW = 5.0  # seconds: for shorter ones the times of printed lines are too inexact
LEAST = 3  # windows needed for a spread

Step = tuple[float, int]  # time of printing, and its number


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
class Speed:
    """`rate`: steps per second, the median of windows of 5 s or more. `spread`: half the range of
    the middle 80 % of them, as a share of the median."""

    rate: float
    spread: float
    windows: int


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


def speed_of(steps: Sequence[Step], rates: Iterable[float] = ()) -> Speed | None:
    """Compute the speed from one rank's printed steps, or else rates, without the first window."""
    values = list(_window_rates(steps)) or list(rates)
    values = sorted(values[1:] if len(values) > LEAST else values)
    if len(values) < 2 or values[len(values) // 2] <= 0:
        return None  # one window has no spread
    margin = len(values) // 10
    middle = values[len(values) // 2]
    return Speed(middle, (values[-1 - margin] - values[margin]) / 2 / middle, len(values))


def _window_rates(steps: Sequence[Step]) -> Iterable[float]:
    """Yield the rates of windows, except those in which the count of steps restarts."""
    if not steps:
        return
    window = max(WINDOW, (steps[-1][0] - steps[0][0]) / 100)
    begin = last = steps[0]
    for step in steps[1:]:
        if step[1] < last[1]:
            begin = step
        elif step[0] - begin[0] >= window:
            yield (step[1] - begin[1]) / (step[0] - begin[0])
            begin = step
        last = step
