"""Format the end of a run: what failed first, what to do about it, and the resources used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from ipexctl.base.quoting import quote
from ipexctl.base.shell_line import first_way, shell_line
from ipexctl.base.sizes import count, fold_numbers, short_duration, short_size
from ipexctl.inventory.hostfile_text import fold
from ipexctl.local.nearest_file import short_path
from ipexctl.run.outcome.first_cause import known_cause
from ipexctl.run.outcome.rank_exchange import TRAINED_ALONE, ExchangeVerdict, describe_exchange
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.outcome.run_result import HostEnd, RunResult
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.output.short_paths import is_own_frame, short_traceback, shorten_paths
from ipexctl.run.pace.slow_steps import StepWait

MOST_RANKS = 8  # ranks that are named
OUTPUT = "  | "  # prefix of a rank's last lines


def summary_lines(result: RunResult, *, detailed: bool = False) -> list[Text]:
    """Return the lines; `detailed`: also what the hosts of a successful run used and have."""
    verbose = detailed or bool(result.kept.trouble)
    detailed = verbose or result.exit_code != 0
    lines = [] if result.exit_code == 0 else _failure_box(result)
    if result.exit_code == 0 and result.gpu_check:
        lines = [
            Text(""),
            Text(f"the script ended itself: {result.gpu_check}", "bold yellow"),
        ]
        lines += _known_failure_lines(result)
    return lines + _result_lines(result, detailed=detailed, verbose=verbose)


def _failure_box(result: RunResult) -> list[Text]:
    """Say what failed, with the rank's last lines, known causes and consequences."""
    stall = [Text(f"  {result.stall}")] if result.stall else []
    if result.ended_by == "interrupted":
        return [Text(""), Text(result.cause, "bold yellow"), *stall]
    lines = [Text(""), Text(f"failed: {result.cause}", "bold red"), *stall]
    texts = [without_colour(text) for text in result.last_words]
    lines += [_format_last_line(text) for text in short_traceback(texts)]
    ways_out = _known_failure_lines(result)
    lines += ways_out
    if result.same:
        others = count(len(result.same), "more rank")
        lines.append(Text(f"  {others} failed in the same way: {_rank_names(result.same)}"))
    if result.victims:
        names = _rank_names(result.victims)
        lines.append(Text(f"  likely consequences: {names}", "dim"))
    if result.again and not any(line.plain.endswith(result.again) for line in ways_out):
        lines.append(Text(f"  again: {result.again}"))
    return lines


def _format_last_line(text: str) -> Text:
    """Format a line of a traceback: frames in the user's own files stand out."""
    return Text(f"{OUTPUT}{shorten_paths(text)}", "bold" if is_own_frame(text) else "")


def _known_failure_lines(result: RunResult) -> list[Text]:
    from ipexctl.explain.causes.causes import first_sentence
    from ipexctl.explain.known_failures import known_failures

    known = known_cause(result, known_failures)
    if known is None:
        return []
    word = "possibly" if known.weak else "known"
    why = known.why if result.left_out else first_sentence(known.why)  # there it is the reason
    return [
        Text(f"  {word}: {known.title}   (ipexctl explain {known.slug})", "bold"),
        Text(f"  why: {why}"),
        *(Text(f"  {label} {line}") for label, line in _ways_out(result, known.fix)),
    ]


_OTHER_RUN = re.compile(
    r"ipexctl run(?P<options>(?: --env \S+| --ports \S+)*)(?: SCRIPT.py)? \.\.\."
)


def _ways_out(result: RunResult, fix: str) -> Iterator[tuple[str, str]]:
    """Yield the lines to paste with their labels: this run's own command in place of `run ...`."""
    is_whole = result.left_out is not None and fix == result.left_out.fix
    for number, text in enumerate(fix.splitlines()):
        line = shell_line(text) if is_whole else first_way(_name_parts(result, text))
        line = result.spell(line) if result.spell and not line.startswith("#") else line
        yield ("    " if number else "try:"), line


def _name_parts(result: RunResult, text: str) -> str:
    """Replace the words of a fix that stand for parts of this run: its command, the host of the
    rank that failed, and that rank's log."""
    if result.again and (match := _OTHER_RUN.match(text)):
        own = result.again.replace("ipexctl run", f"ipexctl run{match['options']}", 1)
        text = own + text[match.end() :]
    if result.first and not result.first.lost:
        host, logs = result.first.host, Path(result.kept.folder or "nowhere", "logs")
        text = re.sub(r"(?<![\w$/.-])HOST\b", quote((host,)), text)
        for path in logs.glob(f"rank{result.first.rank:05}.*"):
            text = text.replace("LOGFILE", quote((short_path(str(path)),)))
    return text


def _rank_names(failed: Sequence[RankEnd]) -> str:
    ends = sorted(failed, key=lambda end: end.rank)
    if len(ends) <= 3:
        return ", ".join(f"rank {e.rank} ({e.host})" for e in ends)
    return f"ranks {fold_numbers([e.rank for e in ends])} ({fold({e.host: 0 for e in ends})})"


def _result_lines(result: RunResult, *, detailed: bool, verbose: bool) -> list[Text]:
    succeeded = result.exit_code == 0
    word = "done" if succeeded else f"exit code {result.exit_code}"
    word += f": rank {result.first.rank} failed" if result.first else ""
    lines = [
        Text(""),
        Text(
            f"{word}: {count(result.plan.world_size, 'rank')} on "
            f"{count(len(result.plan.hosts), 'host')} in {short_duration(result.seconds)}",
            "bold green" if succeeded else "bold red",
        ),
    ]
    if crashed := [end for end in result.ends if end.at_exit]:
        text = f"  Python crashed on {_rank_names(crashed)} after the script had ended"
        lines.append(Text(f"{text}   (ipexctl explain ccl-abort-at-exit)"))
    lines += [Text(f"  {text}", "bold yellow") for text in result.warnings]
    lines += _exchange_lines(result)
    lines += [Text(f"  {text}") for text in _load_lines(result.hosts) if detailed]
    lines += _slow_rank_lines(result)
    lines += _step_lines(result)
    return lines + _leftover_lines(result, detailed=detailed, verbose=verbose)


def _exchange_lines(result: RunResult) -> list[Text]:
    """Say what ranks exchanged, unless the headline says it or it is as usual."""
    exchange = result.exchange
    headline = result.ended_by in ("not-together", "not-known")
    if exchange is None or headline or exchange.quiet:
        return []
    text = f"  {describe_exchange(exchange, result.plan.world_size)}"
    if exchange.is_alarming:
        hint = f"    why, and what to change: ipexctl explain {TRAINED_ALONE}"
        return [Text(text, "bold yellow"), Text(hint, "yellow")]
    if exchange.verdict is ExchangeVerdict.ALONE and exchange.steps:
        return [Text(f"{text}   (ipexctl explain {TRAINED_ALONE})")]
    return [Text(text)]


def _load_lines(hosts: Sequence[HostEnd]) -> list[str]:
    """Return a line for each host; of many hosts, only for the busiest and the idlest."""
    loaded = [end for end in hosts if end.load.cpu is not None or end.load.used is not None]
    if len(loaded) > MOST_RANKS:
        loaded.sort(key=lambda end: end.load.cpu or 0.0)
        loaded = [*loaded[:2], *loaded[-2:]]
    groups: dict[str, list[str]] = {}
    for host in loaded:
        groups.setdefault(_format_load(host), []).append(host.host)
    wide = max(map(len, map(fold, groups.values())), default=0)
    return [f"{fold(hosts):{wide}}  {load}" for load, hosts in groups.items()]


def _format_load(host: HostEnd) -> str:
    parts = [] if host.load.cpu is None else [f"CPUs of the host {host.load.cpu:.0%} busy"]
    if host.load.used is not None:
        total = f" of {short_size(host.load.total)}" if host.load.total else ""
        parts.append(f"memory {short_size(host.load.used)}{total} at most")
    return ", ".join(parts)


def _slow_rank_lines(result: RunResult) -> list[Text]:
    if result.slow is None:
        return []
    names = _rank_names([e for e in result.ends if e.rank in result.slow.ranks])
    text = f"  slow: {names}; the other ranks waited {result.slow.waits * 100:.0f} % of the time"
    return [Text(text, "yellow")]


def _step_lines(result: RunResult) -> list[Text]:
    """Propose faster steps, unless that contradicts the line about a slow rank: see `_slow`."""
    if result.exit_code or result.steps is None or not result.steps.proposals:
        return []
    if result.slow and result.steps.wait is not StepWait.SLOW_HOST:
        return []
    reason = "" if result.slow else f"{result.steps.headline}; "
    return [Text(f"  {reason}try: {result.steps.proposals[0].command}", "yellow")]


def _survivor_lines(hosts: Sequence[HostEnd], *, detailed: bool) -> list[Text]:
    """Format the number of processes left; unknown, and never 0, if a host was not reached."""
    unknown = [host.host for host in hosts if host.survivors is None]
    counts = [host.survivors for host in hosts if host.survivors is not None]
    head = "  processes left on the hosts: "
    if not unknown:
        return [Text(f"{head}{sum(counts)}")] if detailed or any(counts) else []
    rest = f", {sum(counts)} on the others" if counts else ""
    return [Text(f"{head}unknown on {fold(unknown)}{rest}", "red")]


def _leftover_lines(result: RunResult, *, detailed: bool, verbose: bool) -> list[Text]:
    """List what is on the hosts and on this machine after the run."""
    lines = _survivor_lines(result.hosts, detailed=detailed)
    if result.hidden and verbose:
        lines.append(
            Text(f"  {count(result.hidden, 'line')} hidden: harmless warnings, frames of C++")
        )
    listed = result.hosts if verbose or not result.kept.folder else ()
    for logs in dict.fromkeys(host.logs for host in listed if host.logs):
        hosts = fold([host.host for host in result.hosts if host.logs == logs])
        lines.append(Text(f"  logs on {hosts}: {logs}"))
    if result.kept.folder:
        lines.append(Text(f"  logs here: {short_path(result.kept.folder)}/logs"))
    lines += [Text(f"  {text}", "yellow") for text in result.kept.trouble]
    outputs = result.kept.outputs  # where they are comes last, as it is looked for
    return lines + [Text(f"  {text}") for text in (*outputs[1:], *outputs[:1])]
