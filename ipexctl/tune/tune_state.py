"""Trials that have ended, in the state folder: the next `tune` of the same run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipexctl.local.atomic_file import write_atomic
from ipexctl.local.bounded_read import read_file
from ipexctl.local.user_dirs import make_private, state_dir
from ipexctl.quick_dataclass import dataclass
from ipexctl.tune.tune_search import Ask, Trial
from ipexctl.tune.tune_space import Profile, Seen

KEEP = 50  # files
MOST = 1 << 20  # bytes of one
FORMAT = 1


@dataclass
class Kept:
    """`rows`: of trials, those of earlier calls first."""

    path: Path
    rows: list[dict[str, Any]]

    @classmethod
    def of(cls, what: Mapping[str, Any], *, fresh: bool) -> Kept:
        """`what`: all that makes two runs the same one."""
        text = json.dumps([FORMAT, what], sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        path = state_dir() / "tune" / f"{name}.json"
        rows: list[dict[str, Any]] = []
        if not fresh:
            with suppress(OSError, ValueError):
                found = json.loads(read_file(path, MOST))
                rows = [row for row in found if isinstance(row, dict)]
        made = cls(path, rows)
        made.left = list(rows)
        return made

    def __post_init__(self) -> None:
        self.left: list[dict[str, Any]] = []

    def knows(self, profile: Profile, part: str) -> bool:
        return bool(self._rows(profile, part))

    def take(self, ask: Ask) -> Trial | None:
        """One of an earlier call that answers this."""
        for row in self._rows(ask.profile, ask.part):
            self.left.remove(row)
            with suppress(KeyError, TypeError, ValueError):
                return _read(row, ask)
        return None

    def _rows(self, profile: Profile, part: str) -> list[dict[str, Any]]:
        key = profile_document(profile.env, profile.options)
        return [row for row in self.left if (row.get("profile"), row.get("part")) == (key, part)]

    def add(self, trial: Trial) -> None:
        if trial.score is None:
            return  # it is tried again
        self.rows.append(document(trial))
        folder = self.path.parent
        with suppress(OSError):
            make_private(folder)
            write_atomic(self.path, json.dumps(self.rows))
            by_age = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
            for old in by_age[:-KEEP]:
                old.unlink()
                old.with_suffix(".run").unlink(missing_ok=True)  # trial.py writes it


def document(trial: Trial) -> dict[str, Any]:
    """Also for --json."""
    return {
        "profile": profile_document(trial.profile.env, trial.profile.options),
        "label": str(trial.profile),
        "part": trial.part,
        "steps_per_second": trial.rate,
        "steps": trial.steps,
        "seconds": round(trial.seconds, 3),
        "ended": trial.ended,
        "why": trial.why or None,
        "from_earlier": trial.kept,
        "ranks": trial.seen.ranks,
        "libraries": sorted(trial.seen.libraries),
        "ddp": trial.seen.ddp or None,
    }


def profile_document(env: Mapping[str, str | None], options: Mapping[str, Any]) -> dict[str, Any]:
    return {"env": dict(env), "options": dict(options)}


def _read(row: Mapping[str, Any], ask: Ask) -> Trial:
    libraries: Sequence[str] = row["libraries"]
    seen = Seen(int(row["ranks"]), frozenset(map(str, libraries)), str(row["ddp"] or ""))
    return Trial(
        ask.profile, ask.part, float(row["steps_per_second"]), float(row["seconds"]), seen,
        int(row["steps"]), str(row["ended"]), kept=True,
    )  # fmt: skip
