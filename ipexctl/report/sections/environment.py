"""Who started a run and where, what it used, its environment and its packages."""

from __future__ import annotations

from typing import Any

from ipexctl.base.sizes import bit_rate, format_bytes, short_duration
from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.run.outcome.run_state import Phase

TITLE = "Environment"
EMPTY = "The first host has no record of the run’s environment."


def section_document(material: Material) -> dict[str, Any]:
    run = material.last.run
    began, about = "Queued" if run.phase is Phase.QUEUED else "Started", run.about
    rows = [
        ("Hosts", fold(about.hosts)),
        (began, material.began),
        (f"{began} by", about.by),
        ("Folder", about.folder),
        ("CPU time", _describe_cpu_time(material)),
        ("Exchanged", _describe_exchange(material.last)),
    ]
    facts = [[name, value] for name, value in rows if value]
    packages = material.last.of_run.packages if material.last.of_run else {}
    return {"facts": facts, "environment": material.environment, "packages": [*packages.items()]}


def _describe_cpu_time(material: Material) -> str:
    """Return what the ranks have used, as far as the hosts that were reached know it."""
    used = sum(attempt.cpu_seconds for attempt in material.attempts)
    unknown = {host for attempt in material.attempts for host in attempt.hosts_without_cpu_time}
    without = f", without {fold(unknown)}" if unknown else ""
    return f"{short_duration(used)}, used by the ranks{without}" if used else ""


def _describe_exchange(last: Attempt) -> str:
    exchange = (last.result or {}).get("exchange")
    size = exchange.get("bytes") if isinstance(exchange, dict) else None
    if isinstance(size, int) and size > 0:
        return f"{format_bytes(size)} between the ranks"
    sent = sum(rank.sent for pace in last.paces for rank in pace.ranks)
    return f"{bit_rate(sent * 8)}, sent by all ranks" if sent else ""
