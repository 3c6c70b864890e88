"""Format parts of a run's output: its headline, its status line, a line's prefix, sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from ipexctl.base.sizes import bit_rate, count, duration, fold_numbers
from ipexctl.common.run_events import HostLoad
from ipexctl.run.outcome.run_result import Tally
from ipexctl.run.output.merge_lines import LineGroup
from ipexctl.run.output.slow_rank import Slow
from ipexctl.run.output.training_state import TrainingProgress
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.stack import mpi

COLOURS = (36, 35, 32, 33, 34, 96, 95, 92, 93, 94)  # of ranks, as the terminal numbers them
RESET = "\x1b[0m"


def colour_of(rank: int) -> int:
    return COLOURS[rank % len(COLOURS)]


def close_colours(text: str) -> str:
    """Reset colours that a line leaves open."""
    return text + RESET if "\x1b" in text else text


class Prefixes:
    """Prefixes of equal width: `node02 r05` for a rank; `node02 x4`, `all x16` or `r0-3,9 x5`."""

    def __init__(self, hosts: Sequence[str], ranks: int) -> None:
        self._wide = max([3, *map(len, hosts)])
        self._digits = max(2, len(str(ranks - 1)))
        self._many = ranks
        self._host: dict[int, str] = {}
        self._ranks: Counter[str] = Counter()

    def place_rank(self, rank: int, host: str) -> None:
        if rank not in self._host:
            self._host[rank] = host
            self._ranks[host] += 1

    def __call__(self, host: str, rank: int) -> str:
        return f"{host:{self._wide}} r{rank:0{self._digits}d}"

    def of_group(self, group: LineGroup) -> str:
        if len(group.ranks) == 1:
            rank = group.ranks[0]
            return self(self._host[rank], rank)
        size = f"x{len(group.ranks)}"
        return f"{self._name_rank(group.ranks):{self._wide}} {size:{self._digits + 1}}"

    def _name_rank(self, ranks: Sequence[int]) -> str:
        if len(ranks) == self._many:
            return "all"
        hosts = {self._host[rank] for rank in ranks}
        if len(hosts) == 1 and len(ranks) == self._ranks[host := hosts.pop()]:
            return host
        ranks_text = f"r{fold_numbers(ranks)}"
        return ranks_text if len(ranks_text) <= max(self._wide, 24) else f"{ranks_text[:22]}.."


def run_headline(run_id: str, plan: LaunchPlan) -> str:
    hosts = plan.hosts_text
    total = f" ({len(plan.hosts)} hosts)" if len(hosts) > 30 else ""
    backend = dict(plan.hosts[0].rank_env).get("IPEXCTL_BACKEND", "gloo")
    return (
        f"run {run_id}: {count(plan.world_size, 'rank')} on {hosts}{total}, "
        f"{mpi.flavour_title(plan.mpi)}, {backend}" + f" at {plan.master}" * (not plan.candidates)
    )


def rank_prefixes(plan: LaunchPlan) -> Prefixes:
    prefixes = Prefixes([item.host for item in plan.hosts], plan.world_size)
    for host in plan.hosts:
        for place in host.ranks:
            prefixes.place_rank(place.rank, host.host)
    return prefixes


def status_line(
    tally: Tally | None, progress: TrainingProgress, bar: str = "", *, width: int
) -> Text:
    """Format progress, ranks and loads, as far as they fit. `tally` None: known from logs only."""
    words = "  ".join(progress_words(progress)) or bar[: width // 2]
    words = words or (tally.start if tally else "")
    parts = _status_parts(tally, words, width) if tally else [(f" {words}", "bold")] * bool(words)
    text = Text.assemble(*parts)
    text.truncate(width, overflow="crop")
    return text


def _status_parts(tally: Tally, words: str, width: int) -> list[tuple[str, str]]:
    """Return the parts of the status line with their styles."""
    ranks = f"{tally.alive} of {tally.ranks} ranks up"
    parts = [(f" {duration(tally.seconds)}  {words}", "bold"), ("  |  ", "dim")] if words else []
    parts += [(ranks if words else f" {duration(tally.seconds)}  {ranks}", "bold")]
    parts += [(f"  {tally.done} done", "green")] if tally.done else []
    parts += [(f"  {tally.failed} failed", "red")] if tally.failed else []
    room = width - sum(len(part) for part, _ in parts)
    parts += [(_slow_text(tally.slow, room), "yellow")] if tally.slow else []
    room = width - sum(len(part) for part, _ in parts)
    return parts + ([(loads, "dim")] if (loads := _load_text(tally, room)) else [])


def _slow_text(slow: Slow, room: int) -> str:
    short = f"  r{fold_numbers(slow.ranks)} slow"
    text = f"{short}: the others wait {slow.waits * 100:.0f} % of the time"
    return text if len(text) <= room else short


def progress_words(progress: TrainingProgress) -> Iterator[str]:
    """Yield parts such as `step 340/1000`, `loss 0.071`, `3.4 it/s`, `eta 3 min 12 s`."""
    if progress.step is not None and progress.of_epoch:
        yield f"epoch {progress.epoch:.0f}" + (f"/{progress.epochs}" if progress.epochs else "")
    if progress.step is not None:
        yield f"step {progress.step}" + (f"/{progress.total}" if progress.total else "")
    elif progress.epoch is not None:
        yield f"epoch {progress.epoch:.4g}" + (f"/{progress.epochs}" if progress.epochs else "")
    if progress.loss is not None:
        yield f"loss {progress.loss:.4g}"
    if progress.nan:
        yield f"loss nan on r{fold_numbers(progress.nan)}"
    if progress.rate:
        rate = progress.rate
        yield f"{rate:.3g} it/s" if rate >= 1 else f"{1 / rate:.3g} s/it"
    if progress.eta is not None and progress.eta < 86400 * 365:
        yield f"eta {duration(progress.eta)}{' (epoch)' if progress.of_epoch else ''}"


def _load_text(tally: Tally, room: int) -> str:
    """Format the ranks' CPUs, the busiest network interface and memory: as much as fits."""
    mems = sorted((m, host) for host, load in tally.loads if (m := _memory_share(load)) is not None)
    nets = [load.net for _, load in tally.loads if load.net is not None]
    parts = (
        [f"  cpu of ranks {_percent_span(min(tally.busy), max(tally.busy))}"] if tally.busy else []
    )
    parts += [f"  net {bit_rate(8 * max(nets))}"] if nets else []
    parts += [f"  mem {_percent_span(mems[0][0], mems[-1][0])}"] if mems else []
    parts += [f" ({mems[-1][1]})"] if len(mems) > 1 else []
    while parts and sum(map(len, parts)) > room:
        parts.pop()
    return "".join(parts)


def _percent_span(low: float, high: float) -> str:
    first, last = f"{low * 100:.0f}", f"{high * 100:.0f}"
    return f"{first} %" if first == last else f"{first}..{last} %"


def _memory_share(load: HostLoad) -> float | None:
    return load.used / load.total if load.used is not None and load.total else None
