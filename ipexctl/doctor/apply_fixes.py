"""doctor --fix and --undo: plan on every host, show, ask, do. What needs root is only printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ipexctl.base.host_outcome import HostDown
from ipexctl.doctor.report import fix_plan
from ipexctl.doctor.report.fix_plan import Done, Plan
from ipexctl.errors import EXIT_FAILED, EXIT_OK, HostFailed, worst_exit
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import GRACE, Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class FixReport:
    """`agreed` is False when there was a plan and the user did not want it."""

    plans: tuple[Plan, ...]
    done: tuple[Done, ...]
    down: tuple[HostDown, ...]
    agreed: bool = True

    @property
    def exit_code(self) -> int:
        codes = [d.state.exit_code for d in self.down]
        failed = any(d.failed for d in self.done) or not self.agreed
        return worst_exit([*codes, EXIT_FAILED if failed else EXIT_OK])


def apply_fixes(
    target: Target, agree: Callable[[Sequence[Plan]], bool], root: str = ROOT
) -> FixReport:
    """`agree` sees every host's plan before anything is changed anywhere."""
    with Fleet(target, root, grace=GRACE) as fleet:

        def look(host: Host) -> Plan:
            _connect(fleet, host)
            return fix_plan.plan(host.name, fleet.call(host, "install.host_fixes.plan"))

        found = fleet.each(look)
        plans = tuple(found.values())
        wanted = {h: [c.key for c in p.changes] for h, p in found.items() if p.changes}
        if not wanted or not agree(plans):
            return FixReport(plans, (), fleet.failures, agreed=not wanted)

        def apply(host: Host) -> Done:
            return fix_plan.done(
                host.name, fleet.call(host, "install.host_fixes.apply", keys=wanted[host])
            )

        done = fleet.each(apply, tuple(wanted))
        return FixReport(plans, tuple(done.values()), fleet.failures)


def undo(target: Target, root: str = ROOT) -> FixReport:
    """Takes back the newest --fix of each host."""
    with Fleet(target, root, grace=GRACE) as fleet:

        def one(host: Host) -> Done:
            _connect(fleet, host)
            return fix_plan.done(host.name, fleet.call(host, "install.host_fixes.undo"))

        done = fleet.each(one)
        return FixReport((), tuple(done.values()), fleet.failures)


def _connect(fleet: Fleet, host: Host) -> None:
    if fleet.connect(host).hello.kind != "python":
        raise HostFailed(f"{host.name}: no Python on the host", slug="no-python")
