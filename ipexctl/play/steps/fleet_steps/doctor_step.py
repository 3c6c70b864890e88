from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from ipexctl.base.host_outcome import without_host
from ipexctl.doctor.report.finding import Finding, Severity
from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.step_schema import arg
from ipexctl.play.verb_calls import target_of
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ipexctl.doctor.report.report import Report

_FAILING = {"fail": (Severity.FAIL,), "warn": (Severity.FAIL, Severity.WARN)}
_SHOWN = (Severity.FAIL, Severity.WARN)


@dataclass(frozen=True)
class Doctor(FleetStep):
    """Check the hosts for problems that break or slow down training.

    It changes nothing. A finding about several hosts together counts for each of them.
    """

    keyword = "doctor"
    example = "doctor: {level: std, fail_on: warn}"
    writes: ClassVar[tuple[str, ...]] = ()

    level: Literal["quick", "std"] = arg(
        "quick: facts and connections; std: measurements as well.", "quick"
    )
    fail_on: Literal["fail", "warn"] = arg(
        "Lowest severity of a finding that fails a host.", "fail"
    )
    python: str = arg("Python on the hosts; its torch is benchmarked at level std.", "")

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.doctor.doctor import DoctorOptions, run_doctor

        options = DoctorOptions(self.level, self.python)
        report = run_doctor(target_of(on), on.fleet.root, options)
        for finding in report.findings:
            if finding.severity in _SHOWN:
                on.say(
                    finding.host, f"{finding.severity.value} {finding.id} {_finding_title(finding)}"
                )
        return {name: self.judge_host(report, name) for name in on.hosts}

    def judge_host(self, report: Report, host: str) -> Result:
        if down := report.down_of(host):
            return Result.of_down(down)
        findings = (*report.findings_of(host), *report.findings_of(""))
        failing = [finding for finding in findings if finding.severity in _FAILING[self.fail_on]]
        if not failing:
            shown = [finding for finding in findings if finding.severity in _SHOWN]
            return Result(State.OK, _describe_warnings(shown))
        first = failing[0]
        why = "\n".join(filter(None, (first.evidence, first.why)))
        detail = "\n".join(f"{finding.id} {_finding_title(finding)}" for finding in failing)
        return Result(State.FAILED, detail, why, str(first.fix))


def _finding_title(finding: Finding) -> str:
    return without_host(finding.host, finding.title)


def _describe_warnings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "no warnings"
    total = f"{len(findings)} warning{'s' * (len(findings) != 1)}"
    return f"{total}: {', '.join(dict.fromkeys(finding.id for finding in findings))}"
