"""logs: read the output of a run's ranks from the files on its hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ipexctl.base.host_answer import Answer
from ipexctl.common.run_answers import TailsAnswer
from ipexctl.common.run_events import Fact, LogPart, LogSizes
from ipexctl.common.watch_orders import Shown
from ipexctl.errors import InputError
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.jobs.ps import (
    AskedRun,
    find_run_of_anybody,
    map_reporting_hosts,
    name_runs_before_it,
    settle_queued_runs,
    wait_until_over,
)
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.output.rank_lines import Lines, LogTimes, Span

SILENCE = 60.0
LARGEST = 1 << 60  # limits of bytes and of seconds: none
WINDOW = 1 << 20  # bytes that a host may send ahead

Show = Callable[[ListedRun, str, int, Sequence[str]], None]
ShowBar = Callable[[ListedRun, str, int, str], None]
ShowTime = Callable[[int, Span | None], None]


@dataclass(frozen=True)
class Wanted:
    run: str
    ranks: tuple[int, ...] = ()  # (): all
    lines: int | None = None  # the last ones of each rank; None: all
    since: float | None = None  # only the output of this many seconds
    follow: bool = False
    bars: bool = False  # each state of a progress bar is a line, not only the last one


def show_logs(
    target: Target,
    wanted: Wanted,
    show: Show,
    root: str = ROOT,
    bar: ShowBar | None = None,
    when: ShowTime | None = None,
) -> AskedRun:
    """Show the logs host by host and rank by rank; with `follow` all at once, as they come.

    `bar` gets the state of a progress bar whose line has not ended. `when` gets the time at which
    a rank printed the lines that `show` gets next.
    """
    with Fleet(target, root) as fleet:
        run = _find_begun_run(fleet, wanted)
        names = {host: name for name, host in map_reporting_hosts(fleet, run).items()}
        lock = threading.Lock()

        def read(host: Host) -> None:
            def shown(rank: int, texts: Sequence[str], state: str, span: Span | None) -> None:
                with lock:
                    if texts and when:
                        when(rank, span)
                    if texts:
                        show(run, names[host], rank, texts)
                    if state and bar:
                        bar(run, names[host], rank, state)

            read_host_logs(
                fleet,
                host,
                name=names[host],
                run=run.id,
                wanted=wanted,
                shown=shown,
                times=when is not None,
            )

        for group in [list(names)] if wanted.follow else [[host] for host in names]:
            fleet.map_hosts(read, group)
        lost = [down.host for down in fleet.downs.values() if down.host in run.about.hosts]
        for (name, rank), texts in read_kept_tails(fleet, run, lost).items():
            if not wanted.ranks or rank in wanted.ranks:
                cut = len(texts) if wanted.lines is None else min(wanted.lines, len(texts))
                show(run, name, rank, texts[len(texts) - cut :])
        return AskedRun(run, fleet.recaps(), len(fleet.alive))


def _find_begun_run(fleet: Fleet, wanted: Wanted) -> ListedRun:
    """Return the run; to follow a queued one, wait until it begins. Raise InputError."""
    run = find_run_of_anybody(fleet, wanted.run)
    absent = [rank for rank in wanted.ranks if rank >= run.about.ranks > 0]
    if absent:
        raise InputError(
            f"--rank {absent[0]}: {run.id} has ranks 0 to {run.about.ranks - 1}",
            hint=f"ipexctl logs {run.id}",
            slug="unknown-rank",
        )
    if run.queued:
        fleet.target.note(name_runs_before_it(fleet, run).queue_text)
    if run.queued and wanted.follow:
        settle_queued_runs(fleet, [run])
        return wait_until_over(fleet, run, or_started=True)
    return run


def read_kept_tails(
    fleet: Fleet, run: ListedRun, lost: Sequence[str]
) -> dict[tuple[str, int], list[str]]:
    """Return last lines of ranks on unreachable hosts: all hosts get them when a rank ends."""
    tails: dict[tuple[str, int], list[str]] = {}
    names = {host: name for name, host in map_reporting_hosts(fleet, run).items()}

    def ask(host: Host) -> None:
        op = "run.run_list.tails"
        done = fleet.call(host, op, known_as=names[host], run_id=run.id, hosts=list(lost))
        for name, rank, text in done.read(TailsAnswer).tails:
            if name in lost and (name, rank) not in tails:
                stream = Lines()
                tails[name, rank] = [*stream.feed(text.encode()), *stream.end()]

    fleet.map_hosts(ask, list(names) if lost else [])
    for name, rank in sorted(tails):
        fleet.target.note(f"{name}: not reached; other hosts have the last lines of rank {rank}")
    return dict(sorted(tails.items()))


def read_host_logs(
    fleet: Fleet,
    host: Host,
    name: str,
    run: str,
    wanted: Wanted,
    shown: Callable[[int, Sequence[str], str, Span | None], None],
    *,
    times: bool,
) -> None:
    """Read logs. `shown` gets a rank, its next lines, its bar's state and when it printed them."""
    agent, streams, clocks = fleet.agents[host], dict[int, Lines](), dict[int, LogTimes]()
    request = {
        "root": fleet.root_of(host),
        "known_as": name,
        "run_id": run,
        "ranks": list(wanted.ranks),
        "lines": wanted.lines,
        "since": wanted.since,
        "times": times,
        "follow": wanted.follow,
        "window": WINDOW,
    }
    number = agent.start("run.run_logs.read", request)
    for frame in agent.answers(number, SILENCE, LARGEST):
        if "event" not in frame.header:
            continue  # the end of the answer
        event = Answer(host.name, frame.header).read(Fact).event
        if isinstance(event, LogSizes):
            clocks[event.key] = LogTimes(event.rows, event.first)
        if not isinstance(event, LogPart) or not isinstance(event.key, int):
            continue
        rank = event.key
        stream = streams.setdefault(rank, Lines(bars=wanted.bars))
        pieces = clocks[rank].pieces(frame.body) if rank in clocks else [(frame.body, None)]
        for data, span in pieces:
            texts = stream.feed(data)
            if state := stream.bar():
                stream.told(state)
            if texts or state:
                shown(rank, texts, state, span)
        if event.end and (texts := stream.end()):
            shown(rank, texts, "", None)
        agent.feed(number, Shown(len(frame.body)).document())
