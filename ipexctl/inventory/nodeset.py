"""Sets of names: `node[01-16,20]` expanded, and folded for display; a Slurm job's hosts."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from string import ascii_lowercase, ascii_uppercase

from ipexctl.base.located_errors import Bad
from ipexctl.quick_dataclass import dataclass

MAX_NAMES = 10_000
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_NUMBERS = re.compile(r"([0-9]{1,9})(?:[-:]([0-9]{1,9})(?:[/:]([0-9]{1,9}))?)?", re.ASCII)
_LETTERS = re.compile(r"([a-z])[-:]([a-z])|([A-Z])[-:]([A-Z])", re.ASCII)


def expand_names(text: str) -> list[str]:
    """Expand `r[1-2]n[01-03]` to r1n01 r1n02 ...; also [1-9/2], and Ansible's [01:50] and [a:f].

    Raises Bad. Counts before it expands, so that `[1-999999999]` costs nothing.
    """
    parts: list[list[str] | list[_Span]] = []
    count, position = 1, 0
    for i, piece in enumerate(_GROUP.split(text)):
        if i % 2:
            spans = list(_parse_spans(text, piece, position))
            count *= sum(len(span.numbers) for span in spans)
            parts.append(spans)
        else:
            _refuse_brackets(text, piece, position)
            parts.append([piece])
        position += len(piece) + 1
        if count > MAX_NAMES:
            raise Bad(
                f"{text!r} names {count:,} hosts or more; the maximum is {MAX_NAMES:,}",
                hint="check the numbers in the brackets",
                slug="too-many-hosts",
            )
    return ["".join(names) for names in product(*(list(_part_names(part)) for part in parts))]


def is_range(inside: str) -> bool:
    """Decide whether this is a valid range for brackets, without expanding it."""
    try:
        return bool(list(_parse_spans(inside, inside, 0)))
    except Bad:
        return False


def split_outside_brackets(text: str, separators: str) -> Iterator[tuple[str, int]]:
    """Yield the pieces between separators outside of brackets, with their positions."""
    depth = start = 0
    for i, char in enumerate(text):
        depth = max(0, depth + (char == "[") - (char == "]"))
        if char in separators and not depth:
            yield text[start:i], start
            start = i + 1
    yield text[start:], start


def fold(names: Iterable[str]) -> str:
    """Fold `node01 node02 node03 head` to `node[01-03],head`."""
    return ",".join(_fold_shape(members) for members in _group_by_shape(dict.fromkeys(names)))


@lru_cache(maxsize=1024)
def compile_wildcard(pattern: str) -> re.Pattern[str]:
    """Compile OpenSSH's patterns: only * and ? are special, [ ] are not.

    fnmatch makes a pattern that never backtracks over a *: ten of them could else take minutes.
    """
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


# --- expanding -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Span:
    """One piece between commas. `width` pads with zeros; `alphabet` is set for letters."""

    numbers: range
    width: int = 0
    alphabet: str = ""


def _part_names(part: list[str] | list[_Span]) -> Iterator[str]:
    for piece in part:
        if isinstance(piece, str):
            yield piece
        elif piece.alphabet:
            yield from (piece.alphabet[i] for i in piece.numbers)
        else:
            yield from (f"{number:0{piece.width}}" for number in piece.numbers)


def _refuse_brackets(text: str, piece: str, position: int) -> None:
    bracket = re.search(r"[\[\]]", piece)
    if bracket:
        message = f"{text!r}: unbalanced brackets"
        raise Bad(message, at=position + bracket.start(), slug="bad-range")


def _parse_spans(text: str, inside: str, position: int) -> Iterator[_Span]:
    for piece in inside.split(","):
        try:
            yield _parse_span(piece)
        except ValueError as e:
            why = f": {e}" if str(e) else ""
            raise Bad(
                f"{text!r}: [{inside}] is not a range of numbers{why}",
                hint="a range is node[01-16], node[1,3,5-9] or node[1-9/2]",
                at=position,
                slug="bad-range",
            ) from None
        position += len(piece) + 1


def _parse_span(piece: str) -> _Span:
    if _LETTERS.fullmatch(piece):
        alphabet = ascii_lowercase if piece[0].islower() else ascii_uppercase
        return _Span(
            _checked_range(alphabet.index(piece[0]), alphabet.index(piece[2]), 1), 0, alphabet
        )
    match = _NUMBERS.fullmatch(piece)
    if not match:
        raise ValueError
    first, last, step = match[1], match[2] or match[1], match[3] or "1"
    padded = any(len(end) > 1 and end.startswith("0") for end in (first, last))
    if padded and len(first) != len(last) and (last.startswith("0") or not first.startswith("0")):
        raise ValueError(f"{first} and {last} are not written with the same width")
    return _Span(_checked_range(int(first), int(last), int(step)), len(first) if padded else 0)


def _checked_range(first: int, last: int, step: int) -> range:
    if last < first:
        raise ValueError("it runs backwards")
    if not step:
        raise ValueError("the step is 0")
    return range(first, last + 1, step)


# --- folding -------------------------------------------------------------------------------------

_Cut = tuple[str, ...]  # texts and numbers in turn: text, digits, text, digits, text


def _group_by_shape(names: Iterable[str]) -> list[list[_Cut]]:
    """Group names that differ in one number only, in order of first appearance."""
    cuts = [tuple(re.split(r"([0-9]{1,9})", name)) for name in names]
    by_text: dict[_Cut, list[_Cut]] = {}
    for cut in cuts:
        by_text.setdefault(cut[::2], []).append(cut)
    varying = {text: _varying_place(members) for text, members in by_text.items()}
    padded = {text: _padded_widths(members, varying[text]) for text, members in by_text.items()}
    groups: dict[tuple[object, ...], list[_Cut]] = {}
    for cut in cuts:
        index = varying[cut[::2]]
        width = len(cut[index]) if index and len(cut[index]) in padded[cut[::2]] else 0
        shape = (cut[:index], cut[index + 1 :], index, width) if index else cut
        groups.setdefault(shape, []).append(cut)
    return list(groups.values())


def _varying_place(cuts: list[_Cut]) -> int:
    """Return the last place whose number isn't the same in all; 0 if there is none."""
    places = [i for i in range(1, len(cuts[0]), 2) if len({cut[i] for cut in cuts}) > 1]
    return places[-1] if places else 0


def _padded_widths(cuts: list[_Cut], index: int) -> set[int]:
    """Return the widths of zero-padded numbers, which must match: 09 goes with 10, not 8."""
    return {len(cut[index]) for cut in cuts if cut[index].startswith("0") and len(cut[index]) > 1}


def _fold_shape(members: list[_Cut]) -> str:
    index = _varying_place(members)
    if not index:
        return "".join(members[0])
    inside = ",".join(_fold_ranges([cut[index] for cut in members]))
    return "".join(members[0][:index]) + f"[{inside}]" + "".join(members[0][index + 1 :])


def _fold_ranges(numbers: list[str]) -> Iterator[str]:
    numbers = sorted(numbers, key=int)
    start = last = numbers[0]
    for number in [*numbers[1:], ""]:
        if number and int(number) == int(last) + 1:
            last = number
            continue
        yield start if start == last else f"{start}-{last}"
        start = last = number


NODES = "SLURM_JOB_NODELIST"
_TASKS = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")


def hosts_of_job(environ: Mapping[str, str]) -> str:
    """Return `a1:2,a2:2` if the job asked for tasks, else `a1,a2`; "" outside a job."""
    nodes = [
        name
        for part, _ in split_outside_brackets(environ.get(NODES, ""), ",")
        for name in expand_names(part)
    ]
    tasks = (
        _read_task_counts(environ.get("SLURM_TASKS_PER_NODE", ""))
        if environ.get("SLURM_NTASKS")
        else []
    )
    if len(tasks) == len(nodes):
        return ",".join(f"{name}:{count}" for name, count in zip(nodes, tasks, strict=True))
    return ",".join(nodes)


def _read_task_counts(text: str) -> list[int]:
    """Parse `2(x3),1` to 2, 2, 2, 1; [] for other text."""
    counts: list[int] = []
    for part in text.split(","):
        matched = _TASKS.fullmatch(part)
        if not matched or len(counts) + int(matched[2] or 1) > 100_000:
            return []
        counts += [int(matched[1])] * int(matched[2] or 1)
    return counts
