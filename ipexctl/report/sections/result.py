"""How a run ended, and the first cause."""

from __future__ import annotations

from typing import Any

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import count, duration
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.run.hang.diagnosis import stall_of
from ipexctl.run.outcome.listed_runs import ListedState
from ipexctl.run.outcome.run_result import from_traceback
from ipexctl.run.output.rank_lines import without_rank_prefix

LINES = 30  # of the last output of the first rank that failed
TONES = {ListedState.DONE: "good", ListedState.FAILED: "bad", ListedState.LOST: "bad"}


def section_document(material: Material) -> dict[str, Any]:
    return {
        "tone": "bad" if material.last.bad_loss else TONES.get(material.last.run.state, "plain"),
        "headline": _headline_text(material),
        "cause": _cause_document(material.last, material.mask),
    }


def _headline_text(material: Material) -> str:
    run, bad = material.last.run, material.last.bad_loss
    size = f"{count(run.about.ranks, 'rank')} on {count(len(run.about.hosts), 'host')}"
    words = {
        ListedState.DONE: "Succeeded", ListedState.FAILED: f"Failed with exit code {run.exit_code}",
        ListedState.RUNNING: "Running", ListedState.STOPPED: "Stopped",
        ListedState.STOPPING: "Stopping", ListedState.RESTARTING: "Restarting",
        ListedState.QUEUED: "Queued",
        ListedState.LOST: "Lost",
    }  # fmt: skip
    verb = "for" if not run.over else "after"
    text = f"{words[run.state]} {verb} {duration(material.seconds)}: {size}"
    text += f"; the loss is {bad}" if bad else ""
    restarts = len(material.attempts) - 1
    return f"{text}, {count(restarts, 'restart')}" if restarts else text


def _cause_document(last: Attempt, mask: SecretMask) -> dict[str, Any] | None:
    run, result = last.run, last.result or {}
    if run.verdict is None or run.verdict.exit_code == 0:
        return None
    first = run.verdict.first
    tails = {rank: text for record in last.records for rank, text in record.tails}
    lines = (
        [without_rank_prefix(t) for t in tails.get(first.rank, "").splitlines()] if first else []
    )
    lines = mask.mask_text("\n".join(from_traceback(lines))).split("\n")  # a key has several lines
    lines = [line for line in lines if line.strip()]
    known = result.get("known") if isinstance(result.get("known"), dict) else None
    stall = stall_of(run)
    text = run.verdict.cause or f"exit code {run.verdict.exit_code}"
    return {
        "text": f"{text}; {stall}" if stall else text,
        "lines": lines[-LINES:],
        "known": known and f"{known.get('title', '')}: {known.get('fix', '')}",
        "again": result.get("again") or "",
    }
