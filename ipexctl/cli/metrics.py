"""metrics."""

from __future__ import annotations

from typing import Annotated, Any

from ipexctl.cli.help.help_layout import output_option
from ipexctl.cli.options import Json, Root, end, on_hosts
from ipexctl.cli.ps import NewestRun


@on_hosts(names=False)
def metrics(
    run: NewestRun = "@last",
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    ranks: Annotated[
        str,
        output_option("--ranks", "--rank", metavar="RANKS", help="Show only these ranks: 0,4-7."),
    ] = "",
    csv: Annotated[bool, output_option("--csv", help="Print one line per step, as CSV.")] = False,
    json: Json = False,
) -> None:
    """Show steps, losses and rates from a run's output."""
    from ipexctl.core.run.line_filter import rank_set
    from ipexctl.ui.run.metrics import metrics_document, show_metrics, write_csv
    from ipexctl.verbs.metrics import metrics as verb

    chosen = tuple(sorted(rank_set(ranks))) if ranks else ()
    found = verb(target, run, chosen, root)
    end(found, metrics_document, write_csv if csv else show_metrics, json=json)
