"""Lists and texts that Jupyter shows as tables and as text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from ipexctl.errors import NotHere
from ipexctl.notebook.run_status import cells, table
from ipexctl.run.jobs.metrics import RankPoint

SHOWN = 20  # rows: the last ones


class ShownText(str):
    """A text that is displayed without quotes. `document`: the same as the command's --json."""

    document: dict[str, Any]

    def __repr__(self) -> str:
        return str(self)


class MetricsTable(list[dict[str, Any]]):
    """One dict for each line with a step, a loss or a rate; values that it lacks are left out."""

    def to_pandas(self) -> Any:
        """A DataFrame. Needs pandas."""
        try:
            import pandas
        except ImportError:
            raise NotHere(
                "to_pandas needs pandas, which is not installed here",
                hint="pip install pandas",
                slug="pandas-missing",
            ) from None
        return pandas.DataFrame(list(self))

    def __repr__(self) -> str:
        return f"<{self._count()}: {', '.join(self._names())}>"

    def _repr_html_(self) -> str:
        names = self._names()
        rows = [cells([_text(row.get(name)) for name in names]) for row in self[-SHOWN:]]
        last = f", the last {SHOWN}" if len(self) > SHOWN else ""
        return table(self._count() + last, [cells(names, "th"), *rows])

    def _count(self) -> str:
        return f"{len(self)} line{'s' * (len(self) != 1)}"

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self for name in row))


def metrics_table(points: Iterable[RankPoint]) -> MetricsTable:
    return MetricsTable(
        {"rank": p.rank, "host": p.host, "line": p.line, "time": _utc(p.time), **p.point.says}
        for p in points
    )


def _utc(time: float | None) -> datetime | None:
    """To the second: it is not known better."""
    return None if time is None else datetime.fromtimestamp(round(time), timezone.utc)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%H:%M:%S}"
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
