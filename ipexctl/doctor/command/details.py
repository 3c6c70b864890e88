"""What is known of the machines beyond the table: with -v, equal hosts together."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from ipexctl.doctor.checks.interfaces import link_speed, peer_nic
from ipexctl.doctor.command.report_lines import labelled
from ipexctl.doctor.report.report import Report
from ipexctl.facts.facts import Facts
from ipexctl.inventory.hostfile_text import fold


def details(report: Report, width: int | None) -> list[Text]:
    text: list[Text] = []
    for label, told in _TOLD:
        found: dict[str, list[str]] = {}
        for facts in report.facts:
            if words := told(facts):
                found.setdefault(words, []).append(facts.host)
        for words, names in found.items():
            text += labelled(label, f"{fold(names)}: {words}", width)
    return [Text(), *text] if text else []


def _link(facts: Facts) -> str:
    nic = peer_nic(facts)
    speed = link_speed(nic) if nic else ""
    return f"{nic.name}, {speed}" if nic and speed else ""


def _uptime(facts: Facts) -> str:
    seconds = facts.condition.kernel.uptime
    if seconds is None:
        return ""
    days, hours = seconds // 86400, seconds // 3600
    return f"{days} day{'s' * (days > 1)}" if days else f"{hours} h" if hours else "less than 1 h"


def _mitigations(facts: Facts) -> str:
    return "; ".join(facts.condition.kernel.mitigations)


_TOLD: tuple[tuple[str, Callable[[Facts], str]], ...] = (
    ("link", _link),
    ("up", _uptime),
    ("mitigations", _mitigations),
)
