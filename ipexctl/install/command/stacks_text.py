"""What `stacks` shows: the version table, and which rows do not fit."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from ipexctl.stack.table_view import Offer, first_choice, python_span
from ipexctl.stack.version_table import END_OF_LIFE, NEVER_RUN, StackRow

_SHOWN = ("NAME", "TORCH", "IPEX", "ONECCL", "PYTHON", "ISA", "GLIBC", "")
_WIDTH = 80


def stack_table_text(offers: Sequence[Offer], *, verbose: bool = False, instead: str = "") -> str:
    """Return the rows, newest torch first, with a star at the row that `install` takes by default.
    `verbose`: also what was not tested about each row; `instead`: the command for a version that
    fits, if none does."""
    fitting = [offer for offer in offers if not offer.reasons]
    refused = [offer for offer in offers if offer.reasons]
    lines = _table_lines(fitting, verbose=verbose) if fitting else ["nothing fits"]
    lines += _legend_lines(fitting, verbose=verbose) if fitting else []
    lines += [f"  try: {instead}   # the nearest version in the table"] if instead else []
    lines += ["", "does not fit:"] if refused else []
    width = max((len(offer.row.name) for offer in refused), default=0)
    for offer in sorted(refused, key=_newest_first):
        lines += _wrap_line(f"  {offer.row.name:{width}}  {'; '.join(offer.reasons)}", width + 4)
    return "".join(f"{line}\n" for line in lines)


def _newest_first(offer: Offer) -> tuple[tuple[int, ...], ...]:
    row = offer.row
    versions = (row.torch, row.ipex or "0", row.oneccl or "0")
    return tuple(tuple(-int(n) for n in v.split(".")) for v in versions)


def _table_lines(offers: Sequence[Offer], *, verbose: bool) -> list[str]:
    rows = [
        _SHOWN,
        *(_row_cells(offer.row, verbose=verbose) for offer in sorted(offers, key=_newest_first)),
    ]
    columns = [i for i, _ in enumerate(_SHOWN) if any(row[i] not in ("", "-") for row in rows[1:])]
    widths = [max(len(row[i]) for row in rows) for i in columns]
    star = getattr(first_choice(offers), "name", None)
    return [
        ("* " if row[0] == star else "  ")
        + "  ".join(f"{row[i]:{width}}" for i, width in zip(columns, widths, strict=True)).rstrip()
        for row in rows
    ]


def _row_cells(row: StackRow, *, verbose: bool) -> tuple[str, ...]:
    life = "ended" * bool(row.ipex) + "?" * (verbose and bool(row.doubts))
    glibc = f"{row.glibc[0]}.{row.glibc[1]}"
    return (
        row.name,
        row.torch,
        row.ipex or "-",
        row.oneccl or "-",
        python_span(row),
        row.isa,
        glibc,
        life,
    )


def _legend_lines(offers: Sequence[Offer], *, verbose: bool) -> list[str]:
    star = first_choice(offers)
    lines = ["", "* the first choice of `ipexctl install`"] if star else [""]
    if not star:
        lines += _wrap_line("`ipexctl install` takes these only with --stack ipex", 2)
    if any(offer.row.oneccl for offer in offers):
        lines += ["ONECCL: with these bindings the backend is ccl, else gloo"]
    if any(offer.row.ipex for offer in offers):
        lines += _wrap_line(f"ended: {END_OF_LIFE}", 2)
    if verbose:
        return lines + _untested_lines(offers)
    hint = "-v: what was not tested about each row"
    return lines + [hint] * any(offer.row.doubts for offer in offers)


def _untested_lines(offers: Sequence[Offer]) -> list[str]:
    """Return each open question once, with the rows that it is about."""
    by_doubt: dict[str, list[str]] = {}
    for offer in sorted(offers, key=_newest_first):
        for doubt in offer.row.doubts:
            by_doubt.setdefault(doubt, []).append(offer.row.name)
    lines = ["?: not tested"] if by_doubt else []
    for doubt, names in by_doubt.items():
        many = doubt == NEVER_RUN and len(names) > 3
        rows = f"{len(names)} rows with ONECCL" if many else ", ".join(names)
        lines += _wrap_line(f"  {doubt}: {rows}", 4)
    return lines


def _wrap_line(line: str, indent: int) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False
    )


def stacks_document(offers: Sequence[Offer]) -> dict[str, Any]:
    """Return the document that --json prints."""
    first = first_choice(offers)
    return {
        "schema_version": 1,
        "stacks": [_offer_document(offer, first=offer.row is first) for offer in offers],
    }


def _offer_document(offer: Offer, *, first: bool) -> dict[str, Any]:
    row = offer.row
    return {
        "name": row.name,
        "fits": not offer.reasons,
        "first_choice": first,
        "reasons": list(offer.reasons),
        "torch": row.torch,
        "ipex": row.ipex or None,
        "oneccl": row.oneccl or None,
        "oneccl_distribution": row.oneccl_dist or None if row.oneccl else None,
        "oneccl_module": row.oneccl_import or None if row.oneccl else None,
        "backend": row.backend,
        "pythons": [f"{major}.{minor}" for major, minor in row.pythons],
        "architectures": list(row.archs),
        "isa": row.isa,
        "glibc": f"{row.glibc[0]}.{row.glibc[1]}",
        "ended": bool(row.ipex),
        "notes": row.notes,
        "not_proved": list(row.doubts),
        "source": row.source,
    }
