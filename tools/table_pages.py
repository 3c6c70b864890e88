"""Tables on pages of docs/ and of the site: variables of a rank, causes of hangs; stacks, rules,
failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ipexctl.explain.causes.causes import Cause
from ipexctl.run.hang.cause_kinds import CAUSES
from ipexctl.run.plan.rank_variables import ERROR_FILE, HOST_WIDE, TABLE
from ipexctl.stack.table_view import python_span
from ipexctl.stack.version_table import StackRow
from ipexctl.user_code.migration_rules import Rule

VARIABLES = "<!-- variables: made by tools/gen_docs.py -->", "<!-- end of variables -->"
HANG_CAUSES = "<!-- causes: made by tools/gen_docs.py -->", "<!-- end of causes -->"


def _between(text: str, marks: tuple[str, str], table: Iterable[str]) -> str:
    """The page with the lines of a table between two marks."""
    begin, end = marks
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"the page lacks {begin!r} or {end!r}")
    return f"{before}{begin}\n\n" + "\n".join(table) + f"\n\n{end}{after}"


# --- the tables of `stacks` and `migrate`, on the site -------------------------------------------


def stack_rows(rows: Sequence[StackRow]) -> str:
    """A page of the site."""
    head = "[stacks](stacks.md) explains the table; `?` marks a row that was not fully tested."
    columns = "| name | torch | ipex | oneccl | backend | module | python | isa | glibc | source |"
    table = [columns, "|---" * 10 + "|", *map(_stack_row, rows)]
    return "\n".join(["# The rows of the version table", "", head, "", *table, ""])


def _stack_row(row: StackRow) -> str:
    cells = (
        f"`{row.name}`" + " ?" * bool(row.doubts), row.torch, row.ipex or "-", row.oneccl or "-",
        row.backend, f"`{row.oneccl_import}`" if row.oneccl else "-", python_span(row), row.isa,
        f"{row.glibc[0]}.{row.glibc[1]}", row.source,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def rules(rules: Iterable[Rule]) -> str:
    """A page of the site."""
    rows = (
        f"| {r.id} | {_finds(r)} | {r.since} | {_cell(r.use) or 'none: remove it'} | "
        f"{_cell(r.source)} |"
        for r in rules
    )
    head = "| rule | finds | since | replacement | source |"
    return "\n".join(["# The rules of `ipexctl migrate`", "", head, "|" + "---|" * 5, *rows, ""])


def _finds(rule: Rule) -> str:
    names = ", ".join(f"`{name}`" for name in rule.names)
    value = f" with `{_cell(rule.value)}`" if rule.value else ""
    return f"{rule.kind} {names}{value}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# --- docs/run-environment.md ---------------------------------------------------------------------


def with_variables(text: str) -> str:
    """docs/run-environment.md with the variables of a rank as they are, by who reads them."""
    rows = [(f"`{v.name}`{'*' * v.fixed}", v.means, v.readers) for v in (*TABLE, ERROR_FILE)]
    rows += [(f"`{name}`", means, readers) for name, means, readers in HOST_WIDE]
    by_readers: dict[str, list[str]] = {}
    for name, means, readers in rows:
        by_readers.setdefault(readers, []).append(f"{name}: {means}")
    items = [f"- {'; '.join(names)}. Read by {who}." for who, names in by_readers.items()]
    return _between(text, VARIABLES, items)


# --- docs/hangs.md -------------------------------------------------------------------------------


def with_hang_causes(text: str) -> str:
    """docs/hangs.md with the table of the kinds of causes as they are."""
    rows = [f"| `{c.name}` | {c.means} | {c.advice} |" for c in CAUSES.values()]
    head = "| kind | the rank | advice, unless the evidence tells more |"
    return _between(text, HANG_CAUSES, [head, "|---|---|---|", *rows])


# --- known failures, on the site -----------------------------------------------------------------

_FAILURES = """\
# Known failures

Generated from `ipexctl/explain/causes/causes.toml`.
`ipexctl explain LOGFILE` finds these in a log, `ipexctl explain NAME` explains one and says what to
type, and a failed run ends by naming the failure that its last lines show.
"""
_SEEN = """\
## Detected before a run

`ipexctl doctor` reports these under the check ids on the right; an id in lower case is the reason
why a host could not be checked. `tests/doctor/test_corpus.py` reproduces those that
can occur in a lab.

| name | what it is | what is printed | seen as |
|---|---|---|---|"""
_UNSEEN = """\
## Not detected before a run

| name | what it is | what is printed | why not |
|---|---|---|---|"""


def failures(causes: Iterable[Cause]) -> str:
    """A page of the site."""
    found = list(causes)
    seen = (_failure(c, ", ".join(c.checks)) for c in found if c.checks)
    unseen = (_failure(c, c.unseen) for c in found if not c.checks)
    return "\n".join([_FAILURES, _SEEN, *seen, "", _UNSEEN, *unseen]) + "\n"


def _failure(cause: Cause, last: str) -> str:
    example = _cell(cause.example).replace("`", "'")
    return f"| {cause.slug} | {cause.title} | `{example}` | {last} |"
