"""How a run ended, and the first cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import count, duration
from ipexctl.base.values import list_of
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.run.hang.diagnosis import diagnose_listed_run, stall_of
from ipexctl.run.hang.diagnosis_layout import diagnosis_lines
from ipexctl.run.outcome.first_cause import bare_lines
from ipexctl.run.outcome.run_result import exception_in, from_traceback
from ipexctl.run.outcome.run_state import Phase

QUEUED = 10.0  # seconds in the queue that are worth a sentence
CONSEQUENCES = {"same": "failed in the same way", "victims": "failed after it"}
LINES = 30  # of the last output of the first rank that failed
WIDE = 400  # characters: the page wraps longer lines
_FRAME = re.compile(r'\s+File "([^"<]+)", line (\d+)')
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3")
TONES = {Phase.DONE: "good", Phase.FAILED: "bad", Phase.LOST: "bad"}


def section_document(material: Material) -> dict[str, Any]:
    return {
        "tone": _choose_tone(material.last),
        "headline": _headline_text(material),
        "queued": _queue_text(material.queued),
        "cause": _cause_document(material.last, material.mask),
    }


def _choose_tone(last: Attempt) -> str:
    tone = TONES.get(last.run.phase, "plain")
    return "warm" if last.bad_loss and tone != "bad" else tone


def _headline_text(material: Material) -> str:
    run, bad = material.last.run, material.last.bad_loss
    size = f"{count(run.about.ranks, 'rank')} on {count(len(run.about.hosts), 'host')}"
    failed = f"Failed with exit code {run.exit_code}"
    words = {Phase.DONE: "Succeeded", Phase.FAILED: failed}
    verb = "for" if not run.over else "after"
    start, link = f"{words.get(run.phase, run.phase.value.capitalize())} {verb}", "and"
    if bad and run.phase is Phase.DONE:  # it did not succeed
        start, link = "Ended with exit code 0 after", "but"
    text = f"{start} {duration(material.seconds)}"
    text += f", {link} the loss is {bad}: {size}" if bad else f": {size}"
    restarts = len(material.attempts) - 1
    return f"{text}, {count(restarts, 'restart')}" if restarts else text


def _queue_text(seconds: float) -> str:
    waited = f"It waited in the queue for {duration(seconds)} before it began."
    return waited if seconds >= QUEUED else ""


def _cause_document(last: Attempt, mask: SecretMask) -> dict[str, Any] | None:
    run, result, diagnosis = last.run, last.result or {}, diagnose_listed_run(last.run)
    failed = run.exit_code not in (None, 0)
    if not failed and diagnosis is None:
        return None
    first = run.verdict.first if run.verdict else None
    tails = {rank: text for record in last.records for rank, text in record.tails}
    tail = tails.get(first.rank, "") if first else ""
    lines = bare_lines(tail.splitlines())
    lines = mask.mask_text("\n".join(from_traceback(lines))).split("\n")  # a key has several lines
    lines = [line for line in lines if line.strip()]
    known = result.get("known") if isinstance(result.get("known"), dict) else None
    texts = [*(run.end_texts or [f"exit code {run.exit_code}"])] if failed else []
    for key, words in CONSEQUENCES.items() if failed else ():
        if ranks := list_of(result.get(key)):
            texts.append(f"{count(len(ranks), 'more rank')} {words}")
    if stall := stall_of(run):
        texts.append(str(stall))
    return {
        "text": "; ".join(texts),
        "raised": describe_exception(lines),
        "evidence": diagnosis_lines(diagnosis, WIDE) if diagnosis else [],
        "lines": lines[-LINES:],
        "known": known and f"{known.get('title', '')}: {known.get('fix', '')}",
        "again": result.get("again") or "",
    }


def describe_exception(lines: Sequence[str]) -> str:
    """Return what a traceback raised, and the last line of the user's own code in it."""
    raised = exception_in(lines)
    frames = [frame for line in lines if (frame := _FRAME.match(line))]
    own = [frame for frame in frames if not _LIBRARY.search(frame[1])] or frames
    if not raised or not own:
        return raised
    name = own[-1][1].rpartition("/")[2]
    kind = "import failed" if raised.startswith(("ImportError", "ModuleNotFound")) else "raised"
    return f"{kind} at {name}:{own[-1][2]}: {raised}"
