"""Select the lines of a run to show: by rank, by host, by content."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ipexctl.base.quoting import quote
from ipexctl.errors import InputError
from ipexctl.inventory.host_patterns import Known, select_hosts
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.run_options import RunOptions
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.plan.launch import LaunchPlan


@dataclass(frozen=True)
class Choice:
    """A selection; empty: everything. A line must match an `include`, if any, and no `exclude`."""

    ranks: frozenset[int] = frozenset()
    hosts: frozenset[str] = frozenset()
    include: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[re.Pattern[str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ranks or self.hosts or self.include or self.exclude)

    def source(self, host: str, rank: int) -> bool:
        if self.ranks and rank not in self.ranks:
            return False
        return not self.hosts or host in self.hosts

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> Sequence[str]:
        if not self:
            return texts
        return [text for text in texts if self.shows(host, rank, text)]

    def shows(self, host: str, rank: int, text: str) -> bool:
        return self.source(host, rank) and self._matches_patterns(without_colour(text))

    def _matches_patterns(self, text: str) -> bool:
        if self.include and not any(pattern.search(text) for pattern in self.include):
            return False
        return not any(pattern.search(text) for pattern in self.exclude)


ALL = Choice()


def read_line_filter(options: RunOptions, inventory: Inventory, known: Known) -> Choice:
    """Read the selection. Hosts are named as for --limit. Raise InputError."""
    patterns, hosts = options.show_hosts, tuple[Host, ...]()
    if patterns:
        hosts = select_hosts(inventory, patterns, known=known, option="--show-hosts").hosts
    return Choice(
        frozenset(rank_set(options.ranks)) if options.ranks is not None else frozenset(),
        frozenset(host.name for host in hosts),
        tuple(_compile_pattern("-i", word) for word in options.include),
        tuple(_compile_pattern("-e", word) for word in options.leave_out),
    )


def require_selected_ranks(choice: Choice, plan: LaunchPlan) -> None:
    """Raise InputError unless a rank is left whose lines are shown."""
    ranks = [(host_plan.host, place.rank) for host_plan in plan.hosts for place in host_plan.ranks]
    if not any(choice.source(host, rank) for host, rank in ranks):
        raise InputError(
            "--ranks and --show-hosts select no ranks",
            why=f"the run has the ranks 0 to {len(ranks) - 1}",
            slug="no-rank-selected",
        )


def rank_set(text: str) -> set[int]:
    """Parse ranks: 0,4-7 -> {0, 4, 5, 6, 7}."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        bounds = [first, last] if dash else [first, first]
        if not all(bound.isascii() and bound.isdigit() and len(bound) < 8 for bound in bounds):
            message = f"--ranks {quote((text,))}: {part!r} is not a rank"
            raise InputError(message, hint="--ranks 0,4-7", slug="rank-list-invalid")
        low, high = map(int, bounds)
        if low > high:
            raise InputError(
                f"--ranks {text}: {part} is a descending range",
                hint=f"--ranks {high}-{low}",
                slug="rank-list-invalid",
            )
        ranks.update(range(low, high + 1))
    return ranks


def _compile_pattern(option: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as e:
        raise InputError(
            f"{option} {text!r} is not a valid regular expression",
            why=str(e),
            hint=f"{option} {quote((re.escape(text),))}   # if it is meant as plain text",
            slug="not-a-pattern",
        ) from None
