"""The data that a report shows of a run, as one JSON document, from the records of its hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from ipexctl.base.secret_mask import MASK, SecretMask
from ipexctl.base.sizes import bit_rate, count, duration, format_bytes
from ipexctl.base.values import texts_of
from ipexctl.inventory.nodeset import fold
from ipexctl.report import curves, difference_lines, host_parts, training_curves
from ipexctl.report.host_record import indented_text
from ipexctl.report.report_material import Attempt, Material
from ipexctl.run.hang.diagnosis import stall_of
from ipexctl.run.outcome.listed_runs import ListedState
from ipexctl.run.outcome.run_result import from_traceback
from ipexctl.run.output.rank_lines import without_colour, without_rank_prefix
from ipexctl.run.pace import slow_steps

LONGEST = 400  # characters of a text
LINES = 30  # of the last output of the first rank that failed
TONES = {ListedState.DONE: "good", ListedState.FAILED: "bad", ListedState.LOST: "bad"}


def report_document(of: Material) -> dict[str, Any]:
    last, pair = of.attempts[-1], of.comparison
    run = last.run
    made = {
        "run": run.id,
        "name": run.about.name,
        "command": run.about.command,
        "state": run.state.value,
        "tone": "bad" if last.bad_loss else TONES.get(run.state, "plain"),
        "headline": _headline_text(of),
        "facts": _fact_rows(of),
        "cause": _cause_document(last, of.mask),
        "cards": _summary_cards(of),
        "waiting": _waiting_document(last),
        "loss": training_curves.loss_chart(of),
        "rate": training_curves.rate_chart(of),
        "metrics": training_curves.metric_charts(of),
        "timeline": host_parts.host_timeline(of),
        "heat": [one for one in (_step_heat(last), _cpu_heat(last)) if one],
        "usage": host_parts.usage_charts(of),
        "places": host_parts.rank_places(last),
        "environment": [list(row) for row in of.environment],
        "packages": [list(row) for row in of.packages],
        "variables": host_parts.variable_rows(last),
        "checkpoints": [host_parts.checkpoint_row(one) for one in of.checkpoints],
        "findings": last.of_run.findings if last.of_run else None,
        "other": of.other.run.id if of.other else "",
        "compared": [
            difference_lines.comparison_headline(pair),
            *difference_lines.step_cost_lines(pair),
        ]
        if pair
        else [],
        "comparison": pair and difference_lines.comparison_document(pair),
        "notes": [*_as_of(of), *of.notes, *texts_of((last.result or {}).get("warnings"))],
        "made": of.made,
        "began": of.began,
    }
    plain = _change_texts(made, _plain_text)
    masked = of.mask.document(plain)
    places = [name for name, value in masked.items() if MASK in str(value)]
    if places:
        masked["notes"].append(f"Secrets are masked ({MASK}) in: {', '.join(places)}.")
    found: dict[str, Any] = _change_texts({**masked, "masked": places}, _cut_text)
    return found


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return the document with all its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _change_texts(one, change) for key, one in value.items()}
    return [_change_texts(v, change) for v in value] if isinstance(value, list | tuple) else value


def _plain_text(text: str) -> str:
    """Remove colours and control characters."""
    return "\n".join(indented_text(without_colour(line), 1 << 20) for line in text.split("\n"))


def _cut_text(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


# --- the first screen ----------------------------------------------------------------------------


def _headline_text(of: Material) -> str:
    last = of.attempts[-1]
    run = last.run
    hosts = len(run.about.hosts)
    size = f"{count(run.about.ranks, 'rank')} on {count(hosts, 'host')}"
    words = {
        ListedState.DONE: "Succeeded", ListedState.FAILED: f"Failed with exit code {run.exit_code}",
        ListedState.RUNNING: "Running", ListedState.STOPPED: "Stopped",
        ListedState.STOPPING: "Stopping", ListedState.RESTARTING: "Restarting",
        ListedState.LOST: "Lost",
    }  # fmt: skip
    verb = "for" if not run.over else "after"
    text = f"{words[run.state]} {verb} {duration(of.seconds)}: {size}"
    text += f"; the loss is {last.bad_loss}" if last.bad_loss else ""
    again = len(of.attempts) - 1
    return f"{text}, {count(again, 'restart')}" if again else text


def _as_of(of: Material) -> list[str]:
    over = of.attempts[-1].run.over
    return [] if over else [f"As of {of.made}, when this page was made: the run continues."]


def _fact_rows(of: Material) -> list[list[str]]:
    about = of.attempts[-1].run.about
    rows = [
        ("Hosts", fold(about.hosts)), ("Started", of.began), ("Started by", about.by),
        ("Folder", about.folder),
    ]  # fmt: skip
    for one in (attempt.run for attempt in of.attempts[:-1]):
        how = f"{duration(one.seconds)}, {one.cause or one.state.value}"
        rows.append((f"Attempt {one.attempt}", f"{fold(one.about.hosts)}: {how}"))
    return [[name, value] for name, value in rows if value]


def _cause_document(last: Attempt, mask: SecretMask) -> dict[str, Any] | None:
    run, said = last.run, last.result or {}
    if run.verdict is None or run.verdict.exit_code == 0:
        return None
    first = run.verdict.first
    tails = {rank: text for record in last.records for rank, text in record.tails}
    lines = (
        [without_rank_prefix(t) for t in tails.get(first.rank, "").splitlines()] if first else []
    )
    lines = mask.text("\n".join(from_traceback(lines))).split("\n")  # a key has several lines
    lines = [line for line in lines if line.strip()]
    known = said.get("known") if isinstance(said.get("known"), dict) else None
    stall = stall_of(run)
    text = run.verdict.cause or f"exit code {run.verdict.exit_code}"
    return {
        "text": f"{text}; {stall}" if stall else text,
        "lines": lines[-LINES:],
        "known": known and f"{known.get('title', '')}: {known.get('fix', '')}",
        "again": said.get("again") or "",
    }


def _summary_cards(of: Material) -> list[dict[str, str]]:
    last, other = of.attempts[-1], of.other
    cards = [_speed_card(last, other), _last_loss(of), _time_card(of), _waiting_card(last)]
    if exchange := _exchange_card(last):
        cards.append(exchange)
    return cards


def _make_card(label: str, value: str, note: str = "", tone: str = "") -> dict[str, str]:
    return {"label": label, "value": value, "note": note, "tone": tone}


def _speed_card(last: Attempt, other: Attempt | None) -> dict[str, str]:
    if last.rate is None:
        return _make_card("Speed", "unknown", "the output has no numbered steps")
    took = 1 / last.rate
    note = f"{took * 1e3:.3g} ms a step" if took < 1 else f"{took:.3g} s a step"
    if other and other.rate:
        faster = f"{last.rate / other.rate - 1:+.0%}"
        note = f"{faster} against {other.rate:.3g} in {training_curves.other_run_name(other, last)}"
    return _make_card("Speed", f"{last.rate:.3g} steps/s", note)


def _last_loss(of: Material) -> dict[str, str]:
    last, other = of.attempts[-1], of.other
    ends = training_curves.loss_ends([last])
    if ends is None:
        return _make_card("Loss", "unknown", "the output has no losses")
    axis, at, value = ends
    total = max((p.total for p in last.printed if p.total is not None), default=None)
    note = f"at {axis.removesuffix(' n')} {at:,.6g}"
    note += f" of {total:,}" if total and axis == training_curves.STEP else ""
    theirs = training_curves.loss_ends([other]) if other else None
    if other and theirs:
        note += f"; {theirs[2]:.4g} in {training_curves.other_run_name(other, last)}"
    elif first := training_curves.loss_ends(of.attempts, first=True):
        note += f"; {first[2]:.4g} at first"
    if last.bad_loss:
        return _make_card("Loss", str(last.bad_loss), note, "bad")
    return _make_card("Loss", f"{value:.4g}", note)


def _time_card(of: Material) -> dict[str, str]:
    last = of.attempts[-1]
    note = "no step was printed"
    if last.training:
        note = f"{_format_seconds(last.training[0])} until the first printed step"
    if len(of.attempts) > 1:
        took = duration(last.run.seconds)
        note = f"all attempts; {took} in attempt {last.run.attempt}: {note}"
    if of.other:
        note = (
            f"{duration(of.other.run.seconds)} in {training_curves.other_run_name(of.other, last)}"
        )
    return _make_card("Time", duration(of.seconds), note)


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


def _waiting_card(last: Attempt) -> dict[str, str]:
    parts = _time_shares(last)
    if parts is None:
        return _make_card("Waiting", "unknown", "too few samples of the ranks' CPUs")
    waits = 1 - parts["computing"]
    cores = sum(len(h.ranks) * (h.threads or 0) for h in last.plan.hosts) if last.plan else 0
    since, until = last.training or (0.0, last.run.seconds)
    hours = cores * (until - since) * waits / 3600
    cost = f"{hours:,.1f} CPU hours" if hours >= 0.1 else f"{hours * 60:.1f} CPU minutes"
    return _make_card("Waiting", f"{waits:.0%}", f"of the ranks' CPU time: {cost}")


def _exchange_card(last: Attempt) -> dict[str, str] | None:
    said = (last.result or {}).get("exchange")
    size = said.get("bytes") if isinstance(said, dict) else None
    if isinstance(size, int) and size > 0:
        return _make_card("Exchanged", format_bytes(size), "between the ranks")
    sent = sum(rank.sent for one in last.paces for rank in one.ranks)
    return _make_card("Exchanged", f"{bit_rate(sent * 8)}", "sent by all ranks") if sent else None


def _time_shares(last: Attempt) -> dict[str, float] | None:
    """Return the shares of the ranks' time between the first and the last step."""
    plan, paces = last.plan, {one.host: one for one in last.paces}
    known = list[tuple[float, float]]()  # computing, sending
    hosts = list[float]()
    for host in plan.hosts if plan else ():
        ranks = paces[host.host].ranks if host.host in paces else ()
        if not ranks or not host.threads:
            return None
        each = min(host.threads, host.quota / len(host.ranks)) if host.quota else host.threads
        used = [min(1.0, rank.cpus / each) for rank in ranks]
        known += zip(used, (rank.sending or 0.0 for rank in ranks), strict=True)
        hosts.append(sum(used) / len(used))
    if not known:
        return None
    computing = sum(c for c, _ in known) / len(known)
    sending = min(sum(s for _, s in known) / len(known), 1 - computing)
    slow = min(max(hosts) - computing, 1 - computing - sending)
    rest = 1 - computing - sending - slow
    return {"computing": computing, "sending": sending, "slow": slow, "rest": rest}


_PARTS = {
    "computing": "Computing",
    "sending": "Exchanging data",
    "slow": "Waiting for the busiest host",
    "rest": "Other waits: input, disks, sleep",
}
_CROWDED = "Other programs keep the CPUs busy; other waits"


def _waiting_document(last: Attempt) -> dict[str, Any]:
    slow, shares = last.slow, _time_shares(last)
    crowded = any((one.cpu or 0.0) >= slow_steps.CROWDED for one in last.paces)
    names = {**_PARTS, "rest": _CROWDED} if crowded else _PARTS
    return {
        "headline": slow.headline if slow else "",
        "parts": [
            {"kind": kind, "name": names[kind], "share": curves.round_value(max(0.0, share))}
            for kind, share in (shares or {}).items()
        ],
        "proposals": [[p.text, p.command] for p in slow.proposals] if slow else [],
    }


# --- ranks over time -----------------------------------------------------------------------------


def _step_heat(last: Attempt) -> dict[str, Any] | None:
    if last.training is None:
        return None
    edges = curves.column_edges(*last.training)
    rows = []
    for rank, points in last.steps.items():
        rates = curves.interval_rates(points, edges)
        rows.append((f"rank {rank}", [1 / r if r else None for r in rates]))
    return _heat_map(f"Step time of each rank{_attempt_suffix(last)}", "s", edges, rows)


def _cpu_heat(last: Attempt) -> dict[str, Any] | None:
    """Chart the ranks' CPU use: ranks that wait for others are idle."""
    held: dict[int, list[curves.Point]] = {}
    for record in last.records:
        for sample in record.samples:
            for one in sample.ranks:
                held.setdefault(one.rank, []).append((sample.at, one.cpus))
    times = [at for points in held.values() for at, _ in points]
    if len(set(times)) < 2:
        return None
    edges = curves.column_edges(min(times), max(times))
    middle = [(a + b) / 2 for a, b in zip(edges, edges[1:], strict=False)]
    rows = [(f"rank {r}", curves.make_curve(p, middle).middle) for r, p in sorted(held.items())]
    return _heat_map(f"CPUs that each rank uses{_attempt_suffix(last)}", "CPUs", edges, rows)


def _attempt_suffix(last: Attempt) -> str:
    return f", attempt {last.run.attempt}" if last.run.attempt > 1 else ""


def _heat_map(
    title: str, unit: str, edges: Sequence[float], rows: Sequence[tuple[str, Sequence[Any]]]
) -> dict[str, Any]:
    merged = curves.merged_rows(rows)
    whole = [(name, [v for v in values if v is not None]) for name, values in rows]
    middles = sorted(((median(v), name) for name, v in whole if v), reverse=True)
    text = ""
    if middles:
        usual = median(value for value, _ in middles)
        text = f"most: {middles[0][1]} with {middles[0][0]:.3g} {unit}; usual: {usual:.3g} {unit}"
    return {
        "title": title, "unit": unit, "text": text, "from": curves.round_value(edges[0]),
        "to": curves.round_value(edges[-1]), "rows": [[name, values] for name, values in merged],
    }  # fmt: skip
