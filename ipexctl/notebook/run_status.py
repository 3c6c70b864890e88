"""What is shown of a run at one moment: a table in Jupyter, a line elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import duration
from ipexctl.errors import printable
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang.diagnosis import stall_of
from ipexctl.run.outcome.listed_runs import Run
from ipexctl.run.output.training_state import Progress

_LEFT = 'style="text-align:left"'


@dataclass(frozen=True, eq=False)
class RunStatus:
    """`losses` are those of the first rank, in the order of its lines."""

    run: Run
    seconds: float
    progress: Progress = Progress()
    losses: tuple[float, ...] = ()

    @property
    def state(self) -> str:
        return self.run.state.value

    @property
    def cause(self) -> str:
        """The first cause of a failure; "" if nothing has failed."""
        return self.run.cause

    @property
    def rate(self) -> float | None:
        """Steps per second."""
        return self.progress.rate

    def __repr__(self) -> str:
        """One line, for a terminal."""
        said = {name: text for name, text in self._rows() if text}
        said.pop("command", None)
        first = f"{self.run.id}: {said.pop('state')}"
        return ", ".join([first, *(f"{name} {text}" for name, text in said.items())])

    def _repr_html_(self) -> str:
        title = self.run.id + (f" ({self.run.about.name})" if self.run.about.name else "")
        rows = [_row(name, escape(text)) for name, text in self._rows() if text]
        return table(f"run {title}", rows)

    def _rows(self) -> Iterator[tuple[str, str]]:
        """Without secrets: notebooks are shared with their output."""
        run, at = self.run, self.progress
        mask = SecretMask((), run.about.command)
        ranks = f"{run.about.ranks} rank{'s' * (run.about.ranks != 1)}"
        where = f"{ranks} on {fold(run.about.hosts)}, {duration(self.seconds)}"
        yield "state", f"{self.state}, {where}"
        yield "command", mask.text(printable(run.about.command))
        total = f" of {at.total}" if at.total else ""
        yield "step", "" if at.step is None else f"{at.step}{total}"
        yield "steps/s", "" if at.rate is None else f"{at.rate:.3g}"
        yield "loss", " -> ".join(f"{loss:.4g}" for loss in dict.fromkeys(self._ends()))
        yield "first cause", mask.text(printable(run.cause))
        yield "held up by", printable(str(stall_of(run) or ""))
        yield "last line", mask.text(printable(run.last)) if run.cause else ""

    def _ends(self) -> Sequence[float]:
        return (self.losses[0], self.losses[-1]) if self.losses else ()


def table(title: str, rows: Sequence[str]) -> str:
    """`rows` are HTML, the title is text."""
    head = f"<caption {_LEFT}><b>{escape(title)}</b></caption>"
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def _row(name: str, html: str) -> str:
    return f'<tr><th scope="row" {_LEFT}>{name}</th><td {_LEFT}>{html}</td></tr>'


def cells(texts: Sequence[str], tag: str = "td") -> str:
    row = (f"<{tag} {_LEFT}>{escape(printable(text))}</{tag}>" for text in texts)
    return f"<tr>{''.join(row)}</tr>"
