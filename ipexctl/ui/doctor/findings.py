"""What was found, each thing once: hosts without an answer, failures, warnings, notes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from ipexctl.core.doctor.report import Report, grouped
from ipexctl.core.facts.host_facts import plain
from ipexctl.core.inventory import fold
from ipexctl.core.model import Finding, HostDown, Severity
from ipexctl.ui.doctor.report_lines import STYLES, command, folded, labelled, truncate

BLOCKS = 8  # of failures, and of warnings, on the first screen
NOTES = 4
EVIDENCE = 3
EVIDENCE_LETTERS = 240
KEYS = 8
_PLURAL = {"fail": "failures", "warn": "warnings", "note": "notes"}


# --- hosts without an answer ---------------------------------------------------------------------


def downs(report: Report, width: int | None, *, verbose: bool) -> list[Text]:
    text: list[Text] = []
    unknown = [d for d in report.down if d.slug == "host-key-unknown"]
    if unknown:
        names = [d.host for d in unknown]
        text += _heading("unreachable", "", names, "their host keys are not trusted yet", width)
        for down in unknown if verbose else unknown[:KEYS]:
            text += labelled("key", f"{down.host}: {down.why or down.what}", width)
        if len(unknown) > KEYS and not verbose:
            text.append(Text(f"  … and {len(unknown) - KEYS} more keys: -v", "dim"))
        text += command("fix", f"{report.trust}   (compare the fingerprints first)", width)
    for same in _alike([d for d in report.down if d not in unknown]):
        text += _no_answer(same, width, verbose=verbose)
    return text + command("or", report.without_downs, width)


def _alike(down: Sequence[HostDown]) -> list[list[HostDown]]:
    """Those that say the same but for their own name."""
    found: dict[tuple[str, ...], list[HostDown]] = {}
    for d in down:
        key = (d.slug, *(part.replace(d.host, "") for part in (d.what, d.why, d.hint)))
        found.setdefault(key, []).append(d)
    return list(found.values())


def _no_answer(same: Sequence[HostDown], width: int | None, *, verbose: bool) -> list[Text]:
    down = same[0]
    text = _heading(down.state.value, "", [d.host for d in same], down.brief, width)
    why = down.why if verbose else down.why.strip().rpartition("\n")[2]
    text += labelled("why", why, width) if why else []
    return text + command("fix", down.hint, width)


# --- findings ------------------------------------------------------------------------------------


def blocks(report: Report, width: int | None, *, verbose: bool) -> list[Text]:
    text: list[Text] = []
    for severity in Severity:
        found = grouped(report.findings, severity)
        brief = severity is Severity.NOTE and not verbose
        most = len(found) if verbose else NOTES if brief else BLOCKS
        if brief:
            text += _notes(found[:most], width, report.everyone)
        else:
            for same in found[:most]:
                text += _block(same, width, report.everyone, verbose=verbose)
        if len(found) > most:
            left = len(found) - most
            word = severity.value if left == 1 else _PLURAL[severity.value]
            more = f"… and {left} more {word}: -v"
            text.append(Text(more, "dim"))
    return text


def _block(
    same: Sequence[Finding], width: int | None, everyone: Sequence[str], *, verbose: bool
) -> list[Text]:
    first = same[0]
    names = [f.host for f in same] if first.host else everyone
    text = _heading(first.severity.value, first.id, names, first.title, width)
    for line in _evidence(same, None if verbose else EVIDENCE):
        text += labelled("seen", line, width)
    if verbose:
        text += labelled("why", first.why, width)
    return text + command("fix", str(first.fix), width)


def _evidence(same: Sequence[Finding], most: int | None) -> list[str]:
    """Each different thing that was seen, with its hosts where they saw different things."""
    hosts: dict[str, list[str]] = {}
    for f in same:
        hosts.setdefault(f.evidence, []).append(f.host)
    if most is None:
        told = [f"{fold(names)}: {text}" for text, names in hosts.items()]
        return told if len(hosts) > 1 else list(hosts)
    brief = [truncate(text, EVIDENCE_LETTERS) for text in hosts]
    if len(hosts) > 1:
        brief = [f"{folded(n, 40)}: {t}" for n, t in zip(hosts.values(), brief, strict=True)]
    more = len(brief) - most
    return brief if more <= 0 else [*brief[:most], f"… and {more} more: -v"]


def _notes(
    found: Sequence[Sequence[Finding]], width: int | None, everyone: Sequence[str]
) -> list[Text]:
    """One line each."""
    if not found:
        return []
    names = [_who(same, width, everyone) for same in found]
    number = max(len(same[0].id) for same in found)
    name = max(map(cell_len, names))
    text = [Text()]
    for same, who in zip(found, names, strict=True):
        start = f" {same[0].id:{number}}  {who}{' ' * (name - cell_len(who))}  "
        room = None if width is None else max(20, width - 4 - cell_len(start))
        line = Text("note", STYLES["note"]).append(start).append(truncate(same[0].title, room))
        text.append(line)
    return text


def _who(same: Sequence[Finding], width: int | None, everyone: Sequence[str]) -> str:
    most = None if width is None else max(16, width // 3)
    return folded([f.host for f in same] if same[0].host else everyone, most)


def _heading(
    state: str, number: str, names: Sequence[str], title: str, width: int | None
) -> list[Text]:
    text = Text(state, f"bold {STYLES[state]}")
    if number:
        text.append(f" {number}", "not bold")
    title = plain(title)
    room = 80 if width is None else max(20, width - cell_len(title) - len(text) - 4)
    text.append(f"  {folded(names, room)}: ", "bold").append(title, "not bold")
    return [Text(), text]
