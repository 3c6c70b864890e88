"""The other numbers in a line with a step or a loss: accuracy, learning rate, norm of gradients."""

from __future__ import annotations

import re

from ipexctl.run.output.metric_lines import COLOUR, MAX_LINE, NUMBER, Formats, Point

_NAMED = re.compile(
    r"(?<![\w./\-])[\"']?"
    r"(?P<name>(?:(?:train(?:ing)?|val(?:id|idation)?|test|eval|dev)[ _])?[A-Za-z][\w./@-]{0,60})"
    r"[\"']?(?P<between>\s*[:=]\s*|\s+)(?:tensor\(|[\[\"'(])?"
    rf"(?P<value>{NUMBER})(?![\w.]*\w|\s?/\s?\d|:\d|-\d)"
)
# Words before a number that say where the line comes from, or what the number counts.
_NOT_METRICS = frozenset(
    ("after", "at", "by", "device", "eta", "for", "from", "gpu", "host", "in", "is", "line")
    + ("local_rank", "node", "of", "pid", "port", "python", "rank", "seed", "than", "to", "took")
    + ("torch", "v", "v_num", "version", "was", "world_size")
)
_RESULT = re.compile(r"^\W{0,2}\{\W{0,3}(?:eval|val|valid|test)_")  # a dictionary
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
Numbers = tuple[tuple[str, float], ...]


def numbers(text: str, point: Point | None, formats: Formats) -> Numbers:
    """`point`: what the line says of the training; its losses are left out. A name without `=` or
    `:` needs a fraction."""
    text = COLOUR.sub("", text[:MAX_LINE]).strip()
    if "%|" in text:
        text = text.rpartition("[")[2] if point else ""
    if any(word in text.lower() for word in formats.not_with):
        return ()
    found: dict[str, float] = {}
    for match in _NAMED.finditer(text):
        name, value = match["name"], match["value"].rstrip(",")
        key = formats.keys.get(name.lower(), "")
        counter = key in ("step", "epoch")
        if (
            not point
            and not found
            and not (counter or formats.evaluation.match(text) or _RESULT.match(text))
        ):
            return ()
        glued = match["between"] == ":" and match[0][0] not in "\"'"  # module:line
        bare = value.lstrip("+-").isdigit() and (glued or not match["between"].strip())
        odd = "," in value and not _THOUSANDS.fullmatch(value)
        if odd or (bare and not counter) or name.lower() in _NOT_METRICS:
            continue
        known = key in ("loss", "eval_loss") and point and getattr(point, key) is not None
        if not known and not (key == "step" and not value.isdigit()):
            found.setdefault(key if counter else name, float(value.replace(",", "")))
    return tuple(found.items()) if point or found.keys() - {"step", "epoch"} else ()
