"""Other runs of ipexctl on the same CPUs."""

from __future__ import annotations

from ipexctl.doctor.checks.registry import Evidence, host_check
from ipexctl.doctor.report.finding import Severity, do, ipexctl_command
from ipexctl.facts import host_facts as of
from ipexctl.facts.facts import Facts


@host_check(
    "LOAD-004",
    title="another run uses these cores",
    severity=Severity.WARN,
    seen="an ipexctl run, by this or another account, on CPUs that this account may use",
    why="Ranks of two runs take turns on a core, and each run waits for its slowest rank.",
    fix=do(
        ipexctl_command("ps"),
        "   # shows it; wait until it ends (run --queue does), or use other hosts",
    ),
)
def other_runs(facts: Facts) -> list[Evidence]:
    runs = [run for run in facts.condition.load.runs if run.uses_any_of(of.usable_cpus(facts))]
    return [Evidence(run.use_of_cores) for run in runs]
