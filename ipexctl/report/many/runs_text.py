"""Many runs in the terminal, and as CSV, from the document of their page. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Document = Mapping[str, Any]
MOST_ROWS = 10
MOST_SETTINGS = 4  # columns in the terminal
LONGEST = 24  # characters of a cell


def setting_of(document: Document, row: Row, part: str, name: str) -> str:
    """Return the value of a setting, "" if the run does not have it or nothing recorded it."""
    number = row["parts"].get(part)
    return "" if number is None else str(document["tables"][number].get(name, ""))


def best_value(document: Document, row: Row) -> float | None:
    """Return the best value of the metric by which runs are compared. A run that ended with nan has
    none."""
    summary = row["metrics"].get(document["ranking"])
    return None if summary is None or summary["last"] is None else summary["best"]


def rank_runs(document: Document) -> list[Row]:
    """Return the runs, the best first; those without a value keep their order at the end.

    What other scripts print may mean something else: only runs of the commonest script are ranked.
    """
    rows: Sequence[Row] = document["runs"]
    scripts = [setting_of(document, row, "arguments", "script") for row in rows]
    commonest = max(scripts, key=scripts.count, default="")
    ends = {metric["name"]: metric["better"] for metric in document["metrics"]}
    sign = -1 if ends.get(document["ranking"]) == "high" else 1
    ranked: list[tuple[float, int, Row]] = []
    others: list[Row] = []
    for row, script in zip(rows, scripts, strict=True):
        value = best_value(document, row) if script == commonest else None
        if value is None:
            others.append(row)
        else:
            ranked.append((sign * value, len(ranked), row))
    return [row for _, _, row in sorted(ranked, key=lambda item: item[:2])] + others


def table_lines(document: Document, width: int) -> list[str]:
    """Return the best run and a table of the first ten."""
    rows, ranking = rank_runs(document), document["ranking"]
    lines = []
    if rows and best_value(document, rows[0]) is not None and len(rows) > 1:
        lines += [_best_line(document, rows[0]), ""]
    settings = document["settings"][:MOST_SETTINGS]
    people = any(row["by"] for row in rows)
    heads = ["run", *["by"] * people, *(name.lstrip("-") for _, name in settings)]
    heads += [f"best {ranking}"] * bool(ranking) + ["state"]
    cells = [heads]
    for row in rows[:MOST_ROWS]:
        cell = [row["name"] or row["id"], *[row["by"] or "-"] * people]
        cell += [setting_of(document, row, part, name) for part, name in settings]
        cell += [_format_value(best_value(document, row))] * bool(ranking)
        cells.append([*cell, _describe_state(row)])
    widths = [max(min(len(line[n]), LONGEST) for line in cells) for n, _ in enumerate(heads[:-1])]
    for line in cells:
        texts = [_cut(text, size).ljust(size) for text, size in zip(line, widths, strict=False)]
        left = width - sum(map(len, texts)) - 2 * len(texts)
        lines.append("  ".join([*texts, _cut(line[-1], max(left, 8))]).rstrip())
    if len(rows) > MOST_ROWS:
        lines.append(f"and {len(rows) - MOST_ROWS} more on the page")
    return [*lines, ""]


def _best_line(document: Document, row: Row) -> str:
    """Return `best val_loss: 0.123 at step 500: lr-0.1 of ann@desk (lr 0.1, bs 32)`."""
    summary = row["metrics"][document["ranking"]]
    place = f"at {summary['axis'].removesuffix(' n')} {summary['best_at']:g}"
    values = [
        f"{name.lstrip('-')} {value}"
        for part, name in document["settings"]
        if (value := setting_of(document, row, part, name))
    ]
    settings = f" ({', '.join(values)})" if values else ""
    value = _format_value(summary["best"])
    whose = f" of {row['by']}" if row["by"] else ""
    run = f"{row['name'] or row['id']}{whose}"
    return f"best {document['ranking']}: {value} {place}: {run}{settings}"


def _describe_state(row: Row) -> str:
    if row["cause"]:
        return f"{row['state']}: {row['cause']}"
    return f"{row['state']}, loss is {row['bad_loss']}" if row["bad_loss"] else str(row["state"])


def _format_value(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _cut(text: str, size: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= size else f"{text[: size - 3]}..."


def csv_text(document: Document) -> str:
    """Return all runs as CSV, the best first: settings that differ, the last and the best value of
    each metric."""
    settings = document["settings"]
    metrics = [metric["name"] for metric in document["metrics"]]
    heads = ["id", "name", "state", "cause", "began", "seconds", "ranks", "hosts", "by"]
    heads += ["rate", "unit"]
    heads += [name.lstrip("-") if part == "arguments" else name for part, name in settings]
    heads += [f"{kind} {name}" for name in metrics for kind in ("last", "best")]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    for row in rank_runs(document):
        speed = row["speed"] or {}
        cells = [row[key] for key in ("id", "name", "state", "cause", "when", "seconds")]
        cells += [row["ranks"], row["hosts"], row["by"], speed.get("rate"), speed.get("unit")]
        cells += [setting_of(document, row, part, name) for part, name in settings]
        for name in metrics:
            summary = row["metrics"].get(name) or {}
            last = summary.get("last")
            cells += [summary.get("ends") if last is None else last, summary.get("best")]
        writer.writerow(map(_safe_cell, cells))
    return out.getvalue()


def _safe_cell(value: object) -> object:
    """A spreadsheet would take a text that begins so for a formula."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "@"))
    return f"'{value}" if is_formula else value
