"""The data that the page of many runs shows, as one JSON document. Pure."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import duration
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.material.host_record import Printed
from ipexctl.report.material.metric_summary import (
    better_end,
    metric_names,
    ranking_metric,
    script_names,
    summarize_metric,
)
from ipexctl.report.material.report_material import Attempt
from ipexctl.report.sections.settings import read_arguments, split_script
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_state import Phase
from ipexctl.run.pace.run_speed import Speed

MOST_SETTINGS = 16  # columns
LONGEST = 200  # characters of a value


@dataclass(frozen=True)
class KnownRun:
    """What is known of a run. A part is None if nothing recorded it."""

    run: ListedRun
    parts: Mapping[str, Mapping[str, str] | None]  # arguments, variables, versions, hosts, ...
    printed: tuple[Printed, ...] = ()
    speed: Speed | None = None
    tree: str = ""  # the hash of what was sent
    links: tuple[tuple[str, str], ...] = ()  # what was found in its folder here: name, address
    only_here: bool = False  # its hosts do not have it, or were not reached
    attempts: int = 1
    given: frozenset[str] = frozenset()  # variables that the user set


def runs_document(
    runs: Sequence[KnownRun], mask: SecretMask, caller_by: str = ""
) -> dict[str, Any]:
    """Return the document, without what is the same for all pages. The newest run is first. Who
    started a run is in it if another person than the caller started one of them."""
    tables: dict[str, int] = {}  # as JSON: most runs share their packages and files
    rows = []
    names = list(dict.fromkeys(name for known in runs for name in metric_names(known.printed)))
    own_names = script_names(line for known in runs for line in known.printed)
    shown_names = {name: own_names.get(name, name) for name in names}
    several = any(known.run.about.by not in ("", caller_by) for known in runs)
    for known in runs:
        parts = dict[str, int | None]()
        for part, values in known.parts.items():
            parts[part] = None
            if values is not None:
                shown = mask.mask_document({key: text[:LONGEST] for key, text in values.items()})
                parts[part] = tables.setdefault(json.dumps(shown), len(tables))
        by = known.run.about.by if several else ""
        rows.append({**_row_document(known, shown_names, mask), "by": by, "parts": parts})
    return {
        "settings": differing_settings(runs),
        "metrics": [{"name": shown_names[name], "better": better_end(name)} for name in names],
        "ranking": shown_names.get(ranking_metric(names), ""),
        "runs": rows,
        "tables": [*map(json.loads, tables)],
    }


def differing_settings(runs: Sequence[KnownRun]) -> list[tuple[str, str]]:
    """Return (part, name) of the arguments, and of the user's variables, whose values differ."""
    found, given = [], frozenset[str]().union(*(run.given for run in runs))
    for part in ("arguments", "variables"):
        known = [values for run in runs if (values := run.parts.get(part)) is not None]
        for name in dict.fromkeys(name for values in known for name in values):
            own = part == "arguments" or name in given
            if own and len({values.get(name) for values in known}) > 1:
                found.append((part, name))
    return found[:MOST_SETTINGS]


def arguments_of(argv: Sequence[str]) -> dict[str, str]:
    """Return the script and its arguments with their values; one may be given repeatedly."""
    script, arguments = split_script(argv)
    found = {"script": " ".join(script)}
    for name, value in read_arguments(arguments):
        found[name] = " ".join(filter(None, (found.get(name), value)))
    return found


def _row_document(
    known: KnownRun, shown_names: Mapping[str, str], mask: SecretMask
) -> dict[str, Any]:
    """Return a row. `shown_names`: what each metric is called on the page."""
    run, speed = known.run, known.speed
    unknown = known.only_here and run.phase is Phase.LOST  # it may also go on
    attempt = Attempt(run, printed=known.printed, speed=speed)
    metrics = {
        shown: values
        for name, shown in shown_names.items()
        if (values := summarize_metric(attempt, name))
    }
    loss = metrics.get(shown_names.get("loss", ""))
    return {
        "id": run.id,
        "name": run.about.name,
        "state": "unknown" if unknown else run.phase.value,
        "cause": mask.mask_text(run.cause),
        "began": run.began or None,
        "when": run.began and time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began)),
        "seconds": round(run.seconds, 1) or None,
        "took": duration(run.seconds) if run.seconds else "",
        "commit": run.about.commit,
        "tree": known.tree[:8],
        "command": mask.mask_text(run.about.command),
        "hosts": fold(run.about.hosts),
        "ranks": run.about.ranks,
        "speed": speed and speed.document(),
        "metrics": metrics,
        "bad_loss": loss["ends"] if loss and loss["last"] is None else "",
        "links": known.links,
        "only_here": known.only_here,
        "attempts": known.attempts,
    }
