"""What `stacks` shows: the version table, and what of it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipexctl.core.rows import END_OF_LIFE, Row
from ipexctl.core.shelf import Offer, span

_HEAD = ("NAME", "TORCH", "IPEX", "ONECCL", "BACKEND", "PYTHON", "ISA", "GLIBC", "LIFE")


def text(offers: Sequence[Offer]) -> str:
    fitting = [o for o in offers if not o.reasons]
    others = [o for o in offers if o.reasons]
    lines = _table(fitting) if fitting else ["nothing fits"]
    if any(o.row.ipex for o in fitting):
        lines += ["", f"ended: {END_OF_LIFE}"]
    lines += _unproved(fitting)
    width = max((len(o.row.name) for o in others), default=0)
    lines += ["", "does not fit:"] if others else []
    lines += [f"  {o.row.name:{width}}  {'; '.join(o.reasons)}" for o in others]
    return "".join(f"{line}\n" for line in lines)


def _unproved(offers: Sequence[Offer]) -> list[str]:
    """Each doubt once, with the rows that it is about."""
    about: dict[str, list[str]] = {}
    for offer in offers:
        for doubt in offer.row.doubts:
            about.setdefault(doubt, []).append(offer.row.name)
    lines = [f"  {doubt}: {', '.join(names)}" for doubt, names in about.items()]
    return ["", "?: not proved", *lines] if lines else []


def _table(offers: Sequence[Offer]) -> list[str]:
    rows = [_HEAD, *(_cells(o) for o in offers)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    return [
        "  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _cells(offer: Offer) -> tuple[str, ...]:
    row = offer.row
    life = "ended" if row.ipex else "maintained"
    return (
        row.name, row.torch, row.ipex or "-", row.oneccl or "-", row.backend, span(row), row.isa,
        f"{row.glibc[0]}.{row.glibc[1]}", life + " ?" * bool(row.doubts),
    )  # fmt: skip


BEGIN = "<!-- the table below is written by tools/gen_docs.py -->"
END = "<!-- end of the table -->"


def updated(text: str, rows: Sequence[Row]) -> str:
    """docs/stacks.md with its table made new; all else stays as it is."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page lacks {BEGIN!r} or {END!r}")
    head = (*_HEAD[:5], "module", *_HEAD[5:-1], "source")
    lines = [_line([h.lower() for h in head]), "|---" * len(head) + "|"]
    for row in rows:
        cells = _cells(Offer(row, ()))
        name = f"`{row.name}`" + " ?" * bool(row.doubts)
        module = f"`{row.oneccl_import}`" if row.oneccl else "-"
        lines.append(_line([name, *cells[1:5], module, *cells[5:-1], row.source]))
    return before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + after


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def document(offers: Sequence[Offer]) -> dict[str, Any]:
    """For --json."""
    return {"schema_version": 1, "stacks": [_entry(o) for o in offers]}


def _entry(offer: Offer) -> dict[str, Any]:
    row = offer.row
    return {
        "name": row.name,
        "fits": not offer.reasons,
        "reasons": list(offer.reasons),
        "torch": row.torch,
        "ipex": row.ipex or None,
        "oneccl": row.oneccl or None,
        "oneccl_distribution": row.oneccl_dist or None if row.oneccl else None,
        "oneccl_module": row.oneccl_import or None if row.oneccl else None,
        "backend": row.backend,
        "pythons": [f"{a}.{b}" for a, b in row.pythons],
        "architectures": list(row.archs),
        "isa": row.isa,
        "glibc": f"{row.glibc[0]}.{row.glibc[1]}",
        "ended": bool(row.ipex),
        "notes": row.notes,
        "not_proved": list(row.doubts),
        "source": row.source,
    }
