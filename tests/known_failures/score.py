"""Answers of the catalogue to the lines that were set aside before its patterns were written.

    python -m tests.known_failures.score > answers.json

Whoever writes patterns does not read them: a judge compares each answer with `means` and `cure`.
On 2026-11-21, of 95 lines: 67 right, 1 rightly silent, 9 too vague, 3 wrong, 15 unknown. Of the 60
that were never released to a writer: 35 right, 8 too vague, 3 wrong, 14 unknown.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from ipexctl.base import toml
from ipexctl.explain.causes import causes
from ipexctl.explain.known_failures import known_failures

HELD_OUT = Path(__file__).parent / "held_out.toml.gz"


def answers() -> list[dict[str, object]]:
    lines = toml.loads(gzip.decompress(HELD_OUT.read_bytes()).decode("utf-8"))["line"]
    known, found = known_failures(), []
    for line in lines:
        match = causes.find_likeliest_cause(line["text"].splitlines(), known)
        said = None
        if match:
            cause = match.cause
            said = {"slug": cause.slug, "title": cause.title, "why": cause.why, "fix": cause.fix}
        found.append({**line, "answer": said})
    return found


if __name__ == "__main__":
    json.dump(answers(), sys.stdout, indent=1)
