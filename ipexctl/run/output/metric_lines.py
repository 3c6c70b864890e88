"""Find step, loss and rate in a line of training output, by formats from metric_formats.toml.

Uncertain values are left out: no value is better than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, fields
from typing import Any

from ipexctl.base import toml
from ipexctl.quick_dataclass import dataclass

MAX_LINE = 1000
NUMBER = r"[-+]?(?:\d[\d,]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|NaN|inf)"
_END = r"(?![\w.]*\w)"
COLOUR = re.compile(r"\x1b\[[0-9;:]*[mK]")
_PREFIX = re.compile(r"^(?:\[rank\d+\]:? |\[\d+,\d+\]<std(?:out|err)>: ?|\d+: (?=\S))")
_BAR = re.compile(
    r"(?:(?P<title>[^|]{0,80}?):? +)?(?P<percent>\d{1,3})%\|[^|]{0,400}\| "
    r"(?P<step>\d[\d.]*[kMGT]?)/(?P<total>\d[\d.]*[kMGT]?) "
    r"\[(?P<spent>[\d:]+)<(?P<left>[\d:?]+)"
    r"(?:, +(?P<rate>[\d.?]+[kM]?) ?(?P<unit>[^\s,/\]]*)/(?P<per>[^\s,\]]+))?"
)
_MANY, _MANY_A_SECOND = 1_000_000, 10_000  # steps: more than any training has
_STEPS = r"(?:it|iters?|iterations?|steps?|batch(?:es)?)"
_RATES = (
    re.compile(rf"(?<![\w.])(?P<rate>\d[\d.]*) ?{_STEPS}/s(?:ec)?\b"),
    re.compile(rf"(?<![\w.])(?P<seconds>\d[\d.]*) ?s(?:ec)?/{_STEPS}\b"),
)


@dataclass(frozen=True)
class Point:
    """The metrics of one line. `rate`: steps per second."""

    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: int | None = None
    loss: float | None = None
    eval_loss: float | None = None
    lr: float | None = None
    rate: float | None = None

    @property
    def says(self) -> dict[str, float]:
        """The values that the line has."""
        values = {metric.name: getattr(self, metric.name) for metric in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


_WHOLE = re.compile(r"\d[\d,]*")
_WORD = re.compile(r"([^\W\d_]\w*) $")
_PART = re.compile(
    rf"(?<![\w./\-])[\"']?(?P<key>\w*loss\w*)[\"']?(?:\s*[:=]\s*|\s+)(?P<value>{NUMBER}){_END}",
    re.IGNORECASE,
)
_FROM = re.compile(rf"(?<=[\s:=]){NUMBER} -> (?=\d)")  # `loss 0.9 -> 0.4`: the previous value
_END_OF_RUN = re.compile(r"\w+ {2,}= {2,}\S+$")  # a table with totals of the run
_TOTALS = {"step": "total", "epoch": "epochs"}
_KINDS: dict[str, type] = {"step": int, "total": int, "epochs": int}


@dataclass(frozen=True)
class Format:
    name: str
    pattern: re.Pattern[str]
    example: str
    gives: dict[str, float]
    alone: bool = False  # whether nothing else in such a line is read
    has: str = ""  # a text in each such line; faster than the pattern


@dataclass(frozen=True)
class Formats:
    """The table of formats."""

    named: re.Pattern[str]  # a name and its number
    keys: dict[str, str]  # name -> field
    whole_loss: re.Pattern[str]  # words before `loss` that still mean the loss, not a part of it
    other_loss: re.Pattern[str]  # the loss of something else
    needed: tuple[str, ...]
    not_after: re.Pattern[str]
    not_with: tuple[str, ...]
    evaluation: re.Pattern[str]
    evaluation_marks: re.Pattern[str]
    titles: re.Pattern[str]
    units: frozenset[str]
    formats: tuple[Format, ...]

    def point(self, text: str) -> Point | None:
        """Return the metrics in a line, or in the state of a bar."""
        text = _PREFIX.sub("", COLOUR.sub("", text[:MAX_LINE]).strip())
        text = _FROM.sub("", text)
        lower = text.lower()
        if text.startswith("::metric "):
            return _make_point(self._read_named(text.removeprefix("::metric "), explicit=True))
        if "%|" in text and (bar := _BAR.search(text)):
            return _make_point(self._bar(bar, text))
        if not any(word in lower for word in self.needed):
            return None
        if any(word in lower for word in self.not_with) or _END_OF_RUN.match(text):
            return None
        values: dict[str, str] = {}
        for form in self.formats:
            if form.has in text and (match := form.pattern.search(text)):
                values = {k: v for k, v in match.groupdict().items() if v} | values
                if form.alone:
                    return _make_point(values.items())
        special = bool(values)
        for name, value in self._read_named(text):
            values.setdefault(name, value)
        if {"step", "epoch"} & values.keys() and not {"loss", "eval_loss"} & values.keys():
            values |= self._read_only_loss(text)
        if self.evaluation.match(text) or self.evaluation_marks.search(text):
            loss = values.get("eval_loss", values.get("loss"))
            return _make_point([("eval_loss", loss)] if loss else [])
        if "eval_loss" in values and "loss" not in values:
            # the step of an evaluation may count something else
            return _make_point([("eval_loss", values["eval_loss"])])
        if not special and not _is_metric(values):
            return None
        return _make_point((values | _read_rate(text)).items())

    def _read_named(self, text: str, *, explicit: bool = False) -> Iterator[tuple[str, str]]:
        seen = set()
        for match in self.named.finditer(text):
            key, value = self.keys[match["key"].lower()], match["value"]
            if not explicit and self.not_after.search(text[: match.start()].lower()):
                continue
            if key in seen or (key == "step" and not _WHOLE.fullmatch(value)):
                continue
            if not explicit and self._is_part_of_loss(match, text):
                continue
            seen.add(key)
            yield key, value
            if match["of"] and key in _TOTALS:
                yield _TOTALS[key], match["of"]

    def _is_part_of_loss(self, match: re.Match[str], text: str) -> bool:
        """Recognize a part of the loss, or one of several: `D loss: 0.1`, `Loc Loss 0.2`."""
        if match["key"].lower() != "loss" or not (word := _WORD.search(text[: match.start()])):
            return False
        return not self.whole_loss.fullmatch(word[1])

    def _read_only_loss(self, text: str) -> dict[str, str]:
        """Treat the only loss in a line with a step or an epoch as the loss, whatever its name."""
        matches = list(_PART.finditer(text))
        if len(matches) != 1 or self.other_loss.search(text[: matches[0].end()]):
            return {}
        return {"loss": matches[0]["value"]}

    def _bar(self, bar: re.Match[str], text: str) -> Iterator[tuple[str, str]]:
        title = bar["title"] or ""
        unit, per = bar["unit"] or "", bar["per"] or ""
        counted = per if unit == "s" and per != "s" else unit
        if counted.lower() not in self.units or self.titles.search(title) or _is_download(bar):
            return
        yield "step", _expand_suffix(bar["step"])
        yield "total", _expand_suffix(bar["total"])
        if bar["rate"] and "?" not in bar["rate"]:
            number = float(_expand_suffix(bar["rate"]))
            if unit != "s":
                yield "rate", str(number)
            elif number:
                yield "rate", str(1 / number)
        for key, value in self._read_named(f"{bar['title'] or ''} ; {text[bar.end() :]}"):
            if key != "step":
                yield key, value


def _is_download(bar: re.Match[str]) -> bool:
    """Recognize a bar of bytes or records, which has no unit of steps."""
    rate = bar["rate"] or "?"
    if "?" in rate:
        return float(_expand_suffix(bar["total"])) >= _MANY
    return bar["unit"] != "s" and float(_expand_suffix(rate)) > _MANY_A_SECOND


def _expand_suffix(text: str) -> str:
    """Expand a number: 12k -> 12000."""
    scale = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1])
    return f"{float(text[:-1]) * scale:.0f}" if scale else text


def _is_metric(values: dict[str, str]) -> bool:
    """Require a loss, or a counter with another value."""
    if "loss" in values or "eval_loss" in values:
        return True
    return "step" in values and len(values) > 1


def _read_rate(text: str) -> dict[str, str]:
    if match := _RATES[0].search(text):
        return {"rate": match["rate"]}
    if (match := _RATES[1].search(text)) and float(match["seconds"]):
        return {"rate": str(1 / float(match["seconds"]))}
    return {}


def _make_point(pairs: Any) -> Point | None:
    values: dict[str, float] = {}
    for name, text in pairs:
        kind = _KINDS.get(name, float)
        try:
            values[name] = kind(float(text.replace(",", "")))
        except (ValueError, OverflowError):
            continue
    return Point(**values) if values else None  # type: ignore[arg-type]


def parse_metric_formats(text: str) -> Formats:
    raw = toml.loads(text)
    keys = {name: key for key, names in raw["names"].items() for name in names}
    names_pattern = "|".join(re.escape(name) for name in sorted(keys, key=len, reverse=True))
    named = (
        rf"(?<![\w./\-])(?P<quote>[\"']?)(?P<key>{names_pattern})(?P=quote)"
        rf"(?:\s*[:=：→]\s*|\s+(?:is\s+)?|\s*(?=\[))(?:array\(|tensor\(|[\[\"'(])?\s*(?P<value>{NUMBER})"
        rf"(?:\s?/\s*(?P<of>\d[\d,]*))?{_END}"
    )
    words = raw["words"]
    refused = "|".join(map(re.escape, words["not_after"]))
    return Formats(
        named=re.compile(named, re.IGNORECASE),
        keys=keys,
        whole_loss=re.compile("|".join(map(re.escape, words["whole_loss"])), re.IGNORECASE),
        other_loss=re.compile(rf"\b(?:{'|'.join(words['other_loss'])})", re.IGNORECASE),
        needed=tuple(words["needed"]),
        not_after=re.compile(rf"(?:^|[^a-z])(?:{refused})[ _]$"),
        not_with=tuple(words["not_with"]),
        evaluation=re.compile(rf"\W*(?:{'|'.join(words['evaluation'])})\b", re.IGNORECASE),
        evaluation_marks=re.compile("|".join(words["evaluation_marks"]), re.IGNORECASE),
        titles=re.compile(rf"\b(?:{'|'.join(raw['bars']['titles'])})", re.IGNORECASE),
        units=frozenset(raw["bars"]["units"]),
        formats=tuple(map(_read_format, raw["format"])),
    )


def _read_format(raw: dict[str, Any]) -> Format:
    pattern = raw["pattern"].replace("NUMBER", NUMBER)
    return Format(
        raw["name"],
        re.compile(pattern),
        raw["example"],
        raw["gives"],
        alone=raw.get("alone", False),
        has=raw.get("has", ""),
    )


@dataclass
class LineReader:
    """Reads the lines of one rank, in order: an earlier line may explain a later one."""

    formats: Formats
    _columns: list[str] = field(default_factory=list)  # header of a table or CSV
    _most: int = 0  # total of the largest bar without a title

    def point(self, text: str) -> Point | None:
        if "%|" in text:
            return self._bar(text)
        if _KERAS.search(text):
            return self._keep_largest(self.formats.point(text))
        separator = next((mark for mark in ("|", ",") if mark in text), None)
        cells = [cell.strip().strip("\"'") for cell in text.split(separator)]
        if len(cells) > 2:
            columns = [self.formats.keys.get(cell.lower(), "") for cell in cells]
            if (
                "loss" in columns
                and {"step", "epoch"} & set(columns)
                and not any(map(_CELL.fullmatch, cells))
            ):
                self._columns = columns
                return None
            if len(cells) == len(self._columns):
                pairs = [
                    (name, value) for name, value in zip(self._columns, cells, strict=True) if name
                ]
                if all(_CELL.fullmatch(value) for _, value in pairs):
                    return _make_point((name, value) for name, value in pairs if value)
        return self.formats.point(text)

    def _bar(self, text: str) -> Point | None:
        """Read a bar. One without a title that is shorter than an earlier one counts something
        else, mostly an evaluation."""
        point = self.formats.point(text)
        if point is None or point.total is None:
            return point
        bar = _BAR.search(text)
        if bar is None or (bar["title"] or "").strip():
            return point
        return self._keep_largest(point)

    def _keep_largest(self, point: Point | None) -> Point | None:
        if point is None or point.total is None:
            return point
        self._most = max(self._most, point.total)
        return point if point.total == self._most else None


_KERAS = re.compile(r"\d+/\d+\S* .*[━=>]|\] +Step: \S+ \| Tot: ")
_CELL = re.compile(rf"(?:{NUMBER}|[\d:]+|)")


def spelled_losses(text: str, point: Point | None, formats: Formats) -> dict[str, str]:
    """Return how a line names its losses: {"eval_loss": "val_loss"}."""
    found: dict[str, str] = {}
    for match in formats.named.finditer(text[:MAX_LINE]) if point else ():
        key = formats.keys[match["key"].lower()]
        if key in ("loss", "eval_loss") and getattr(point, key) is not None:
            found.setdefault(key, match["key"])
    return found


_NAMED = re.compile(
    r"(?<![\w./\-])[\"']?"
    r"(?P<name>(?:(?:train(?:ing)?|val(?:id|idation)?|test|eval|dev)[ _])?[A-Za-z][\w./@-]{0,60})"
    r"[\"']?(?P<between>\s*[:=]\s*|\s+)(?:tensor\(|[\[\"'(])?"
    rf"(?P<value>{NUMBER})(?![\w.]*\w|\s?/\s?\d|:\d|-\d)"
)
# Words before a number that name the source of the line, or what the number counts.
_NOT_METRICS = frozenset(
    ("after", "at", "by", "device", "eta", "for", "from", "gpu", "host", "in", "is", "line")
    + ("local_rank", "node", "of", "pid", "port", "python", "rank", "seed", "than", "to", "took")
    + ("torch", "v", "v_num", "version", "was", "world_size")
)
_RESULT = re.compile(r"^\W{0,2}\{\W{0,3}(?:eval|val|valid|test)_")  # a dictionary
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
Numbers = tuple[tuple[str, float], ...]


def read_named_numbers(text: str, point: Point | None, formats: Formats) -> Numbers:
    """Return named numbers. `point`: the metrics of the line; its losses are left out. A name
    without `=` or `:` needs a fraction."""
    text = COLOUR.sub("", text[:MAX_LINE]).strip()
    if "%|" in text:
        text = text.rpartition("[")[2] if point else ""
    if any(word in text.lower() for word in formats.not_with):
        return ()
    numbers: dict[str, float] = {}
    for match in _NAMED.finditer(text):
        name, value = match["name"], match["value"].rstrip(",")
        key = formats.keys.get(name.lower(), "")
        counter = key in ("step", "epoch")
        if (
            not point
            and not numbers
            and not (counter or formats.evaluation.match(text) or _RESULT.match(text))
        ):
            return ()
        is_line = match["between"] == ":" and match[0][0] not in "\"'"  # module:line
        whole_number = value.lstrip("+-").isdigit() and (is_line or not match["between"].strip())
        malformed = "," in value and not _THOUSANDS.fullmatch(value)
        if malformed or (whole_number and not counter) or name.lower() in _NOT_METRICS:
            continue
        is_loss = key in ("loss", "eval_loss") and point and getattr(point, key) is not None
        if not is_loss and not (key == "step" and not value.isdigit()):
            numbers.setdefault(key if counter else name, float(value.replace(",", "")))
    return tuple(numbers.items()) if point or numbers.keys() - {"step", "epoch"} else ()
