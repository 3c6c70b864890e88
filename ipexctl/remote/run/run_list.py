"""List the runs of this host from their journals: for `ps`, `stop`, `wait`, `logs` and `report`."""

import json
import os
import time

from ipexctl.common import run_events
from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    AttemptRuns,
    FurtherAttempt,
    KeeperAnswer,
    KeeperQuestion,
    RecordLine,
    RunEnded,
    RunQueued,
)
from ipexctl.common.control_questions import LookAtRanks, StopRun
from ipexctl.common.journal_records import (
    RUN_FORMAT,
    FactNoted,
    LogBegan,
    LogEnded,
    LookNoted,
    OwnRankEnded,
    OwnRankStarted,
    PaceNoted,
    PartEnded,
    RanksSignalled,
    ResultNoted,
    RunBegan,
    WrittenRecord,
)
from ipexctl.common.rank_paces import HostSample
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.common.run_answers import (
    AttemptSummary,
    JournalSummary,
    PlanAnswer,
    RecordAnswer,
    RunList,
    RunRow,
    TailsAnswer,
    WhyAnswer,
)
from ipexctl.common.run_events import Fact
from ipexctl.common.supervisor_state import SupervisorState
from ipexctl.remote import disk_use, root_folder
from ipexctl.remote.run import control
from ipexctl.remote.run_files import attempt_lines, journal, queued_runs, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.common.journal_records import JournalRecord
    from ipexctl.remote.main import Call

    Record = dict[str, Any]

FACTS, END = 64, 2000  # facts by which the run ended, and characters of each failed rank's output
# bytes of an answer, which has a limit (machines/wire/frames.py); of a row, and of one beyond that
MOST_ANSWERED, LARGE_ROW, USUAL_ROW, EDGE = 4 << 20, 320000, 8000, 200
MOST_RECORDS = 4000  # records in an answer, the first and the last ones
MOST_VALUES = 100000  # of samples: an answer holds five times as many
LEFT_OUT = (LookNoted, LogBegan, LogEnded, ResultNoted, RunBegan)
LAST = 4096  # bytes of a log in which the last lines are looked for
RECENT, LONGEST = 8, 200  # last lines that have a number, and characters of each
TOLD = 2  # such lines of a rank on another host


def op_list(call: "Call", root: str, known_as: str, only: str, newest: int, sizes: bool) -> RunList:
    """List runs, the newest first.

    `known_as`: the caller's name for this host. `only`: a run's id (that of a first attempt means
    all attempts), "" for all. `newest`: how many of those that have ended, 0 for all.
    """
    if root_folder.is_absent(root):
        return RunList([])
    root = root_folder.check_existing_root(root)
    rows, ended_count, answered = [], 0, 0  # type: list[RunRow], int, int
    for run in reversed(run_folders.run_ids(root)):
        first_run = ATTEMPT.sub("", run)
        if only not in ("", run, first_run):
            continue
        folder = os.path.join(root, "runs", run)
        folder_of_first = os.path.join(root, "runs", first_run)
        name = name_in(folder, known_as)
        alive = control.is_alive(folder, name)
        guarded = alive or control.is_alive(folder, control.guardian_of(name))
        keeper = control.keeper_of(name)
        kept = control.is_alive(folder_of_first, keeper)
        asleep = not kept and os.path.exists(queued_runs.order_path(folder, name))
        may_wait = asleep or (kept and run == first_run)
        if newest and ended_count >= newest and not (guarded or may_wait):
            continue
        data = journal.read_journal_bytes(journal.path_of(folder, name))
        records = journal.parse_records(data)
        # after a supervisor was killed, its guardian still has to record how that ended
        has_end = any(isinstance(written.record, PartEnded) for written in records)
        alive = alive or (guarded and not has_end)
        lines = list(attempt_lines.read_lines(folder_of_first, name))
        place = summarize_queue(lines) if run == first_run else None
        if not records and not any(data) and not place:
            continue
        waits = place is not None and (asleep or (kept and not has_begun(lines)))
        ended_count += not (alive or waits)
        question = KeeperQuestion().document()
        reply = control.ask_supervisor(folder_of_first, keeper, question) if kept else None
        row = RunRow(
            run,
            name,
            alive,
            place if place and not records else summarize_journal(records),
            summarize_attempts(lines, run),
            KeeperAnswer.read(reply or {}),
            kept=kept,
            unreadable=not (records or place),
            waited=place is not None,
            queued=waits and not records,
            asleep=asleep and place is not None and not records,
        )
        row.last, row.recent = read_last_lines(folder, records)
        row.told = read_told_lines(records)
        row.bytes = disk_use.size_of(folder) if sizes else None
        set_durations(row.journal, folder, alive)
        row, size = limit_texts(row, LARGE_ROW if answered < MOST_ANSWERED else USUAL_ROW)
        answered += size
        rows.append(row)
    return RunList(rows)


def limit_texts(row: RunRow, most: int) -> "tuple[RunRow, int]":
    """Return the row and its size; one that is so large that others would have no place in the
    answer has short texts alone. Another host of the run may have said them."""
    document = row.document()
    size = len(json.dumps(document))
    if size > most:
        document = shorten_texts(document)
        row, size = RunRow.read(document), len(json.dumps(document))
    return row, size


def shorten_texts(value: "Any") -> "Any":
    """Return the document with the first and the last part of each long text."""
    if isinstance(value, str):
        return value if len(value) <= 2 * EDGE else value[:EDGE] + " ... " + value[-EDGE:]
    if isinstance(value, dict):
        return {name[: 2 * EDGE]: shorten_texts(item) for name, item in value.items()}
    return [shorten_texts(item) for item in value] if isinstance(value, (list, tuple)) else value


def set_durations(summary: JournalSummary, folder: str, alive: bool) -> None:
    """Set how long the run has lasted, stalled and been cut off, as of now."""
    began = summary.began
    if not alive and summary.over is None and summary.result is None and began:
        duration = run_folders.last_written(folder) - began  # its end was not recorded
        summary.seconds = max(summary.seconds, duration)
    age = time.time() - began if alive and began else 0.0
    if summary.stall is not None:
        summary.progressed = summary.stall
        known_until = summary.decided or (age if alive else summary.seconds)
        summary.stall = max(0.0, known_until - summary.stall)
    else:
        summary.look, summary.ends = None, []
    summary.cut = [(hosts, max(0.0, age - since)) for hosts, since in summary.cut if age]


def summarize_queue(lines: "list[RecordLine]") -> "JournalSummary | None":
    """Return what is known of a run with --queue before it has a journal, by what its keeper wrote;
    None of any other run."""
    first = lines[0] if lines else None
    if not isinstance(first, RunQueued):
        return None
    begun = [line for line in lines if isinstance(line, AttemptBegins)]
    # the last attempt has the hosts that the run took
    hosts = tuple(begun[-1].hosts) if begun else ()
    about = first.about.replace(hosts=hosts, any_of=0) if begun else first.about
    return JournalSummary(RUN_FORMAT, about, first.since)


def has_begun(lines: "list[RecordLine]") -> bool:
    return any(isinstance(line, AttemptBegins) for line in lines)


def summarize_attempts(record: "list[RecordLine]", run: str) -> AttemptSummary:
    """Summarize the record of a run with --restarts, about the attempt with this id."""
    numbers = {line.run_id: line.attempt for line in record if isinstance(line, AttemptBegins)}
    attempt_ends = [line for line in record if isinstance(line, AttemptEnded)]
    own_ends = [line for line in attempt_ends if line.attempt == numbers.get(run)]
    run_ends = [line for line in record if isinstance(line, RunEnded)]
    agreed_ends = [line.why for line in run_ends if not line.cut_off]
    stop_reasons = [line.why for line in run_ends if line.by_user]
    match = ATTEMPT.search(run)
    return AttemptSummary(
        lost=own_ends[-1].lost + own_ends[-1].away if own_ends else [],
        why=own_ends[-1].why if own_ends else "",
        stopped=stop_reasons[-1] if stop_reasons else "",
        further=list_further_attempts(record, int(match.group(1)) if match else 1),
        settled=bool(agreed_ends),
        end=agreed_ends[-1] if agreed_ends else "",
        done=any(line.well for line in run_ends),
        ran=any(isinstance(line, AttemptRuns) for line in record),
        cut_off=any(line.cut_off for line in run_ends),
    )


def list_further_attempts(record: "list[RecordLine]", number: int) -> "list[FurtherAttempt]":
    """Return a FurtherAttempt for each one after that `number`."""
    ends = {line.attempt: line for line in record if isinstance(line, AttemptEnded)}
    running = {line.attempt for line in record if isinstance(line, AttemptRuns)}
    further = []
    for line in record:
        if isinstance(line, AttemptBegins) and line.attempt > number:
            end = ends.get(line.attempt)
            ran = end.ran if end else line.attempt in running
            why = "" if ran or end is None else end.why
            lost = end.lost if why and end else []
            further.append(FurtherAttempt(line.attempt, line.hosts, ran, why, lost, line.skipped))
    return further


def name_in(folder: str, name: str) -> str:
    """Return this host's name in the run: another controller may use its address instead."""
    names = journal.list_journal_hosts(folder) or journal.list_kept_hosts(folder)
    if name in names:
        return name
    alive_names = [host for host in names if control.is_alive(folder, host)]
    return (alive_names + names)[0] if len(alive_names) == 1 or len(names) == 1 else name


def find_plan(records: "list[WrittenRecord]") -> "Any":
    """Return the plan of a run that has begun, None if it has not."""
    events = [fact.event for fact in list_facts(records)]
    plans = [event.plan for event in events if isinstance(event, run_events.Begun)]
    return plans[-1] if plans else None


def list_facts(records: "list[WrittenRecord]") -> "list[Fact]":
    return [w.record.fact for w in records if isinstance(w.record, FactNoted)]


def when_began(records: "list[WrittenRecord]") -> "float | None":
    """Return when the run began, by the clock of the host."""
    times = [w.record.began for w in records if isinstance(w.record, RunBegan)]
    return times[0] if times else None


def op_plan(call: "Call", root: str, known_as: str, run_id: str) -> PlanAnswer:
    records = journal.read_journal(run_folders.folder_of(root, run_id), known_as)
    began = when_began(records) or time.time()
    return PlanAnswer(find_plan(records), int(max(0.0, time.time() - began)))


def op_why(call: "Call", root: str, known_as: str, run_id: str) -> WhyAnswer:
    folder = run_folders.folder_of(root, run_id)
    records = journal.read_journal(folder, known_as)
    paces = [w.record.last_minute for w in records if isinstance(w.record, PaceNoted)]
    reply = control.ask_supervisor(folder, known_as, LookAtRanks().document())
    state = SupervisorState.read(reply or {})
    return WhyAnswer(
        alive=state.alive,
        quiet=state.quiet,
        computes=state.computes,
        look=state.look,
        pace=state.pace or (paces[0] if paces else None),
        plan=find_plan(records),
        ends=list_rank_ends(list_facts(records)),
    )


def op_tails(
    call: "Call", root: str, known_as: str, run_id: str, hosts: "list[str]"
) -> TailsAnswer:
    tails = []
    for fact in list_facts(journal.read_journal(run_folders.folder_of(root, run_id), known_as)):
        event = fact.event
        if isinstance(event, run_events.RankExited) and fact.host in hosts and event.tail:
            tails.append((fact.host, event.rank, event.tail))
    return TailsAnswer(tails)


def op_record(call: "Call", root: str, known_as: str, run_id: str) -> RecordAnswer:
    """Return facts, and what the ranks here did."""
    folder = run_folders.folder_of(root, run_id)
    records = journal.read_journal(folder, known_as)
    kept = [written for written in records if not isinstance(written.record, LEFT_OUT)]
    if len(kept) > MOST_RECORDS:
        kept = kept[: MOST_RECORDS // 2] + kept[-MOST_RECORDS // 2 :]
    samples = thin_samples(read_samples(journal.samples_path(folder, known_as)))
    shortened = [shorten_record(written) for written in kept]
    return RecordAnswer(when_began(records) or 0.0, shortened, samples)


def read_samples(path: str) -> "list[HostSample]":
    """Return the samples in a history, without lines that are not as declared."""
    samples = []
    for line in journal.read_lines(path):
        try:
            samples.append(HostSample.read(line))
        except TypeError:
            continue
    return samples


def shorten_record(written: WrittenRecord) -> WrittenRecord:
    record = written.record
    if not isinstance(record, FactNoted):
        return written
    return written.replace(record=FactNoted(shorten_tail(record.fact, END)))


def shorten_tail(fact: "Fact", characters: int) -> "Fact":
    """Return the fact with so much of a rank's output, if it is the end of a rank."""
    event = fact.event
    if not isinstance(event, run_events.RankExited):
        return fact
    tail = event.tail[-characters:] if characters else ""
    return fact.replace(event=event.replace(tail=tail))


def thin_samples(samples: "list[HostSample]") -> "list[HostSample]":
    values = sum(5 + 4 * len(sample.ranks) for sample in samples)
    step = -(-values // MOST_VALUES)
    return samples[::step] if step > 1 else samples


def op_stop(call: "Call", root: str, known_as: str, run_id: str, by: str, seconds: float) -> None:
    """Ask the run's supervisor, if one is alive, to end its ranks."""
    order = StopRun(by, seconds).document()
    control.ask_supervisor(run_folders.folder_of(root, run_id), known_as, order)


def summarize_journal(records: "list[WrittenRecord]") -> JournalSummary:
    """Summarize the records of a journal in one pass. All times in it are seconds since the run
    began: `stall` when its ranks last made progress, `cut` since when; see set_durations."""
    reader = JournalSummarizer()
    for written in records:
        reader.take(written.record, written.at)
        reader.summary.seconds = written.at or reader.summary.seconds
    reader.summary.started = len(reader.started)
    return reader.summary


class JournalSummarizer:
    def __init__(self) -> None:
        self.summary = JournalSummary(facts=[], own=[])
        self.rank_ends: "list[Fact]" = []
        self.started, self.ended = set(), set()  # type: set[int], set[int]
        self.closing = False

    def take(self, record: "JournalRecord", at: float) -> None:
        summary = self.summary
        if isinstance(record, RunBegan):
            summary.about, summary.began = record.about, record.began
            summary.format = record.version
        elif isinstance(record, OwnRankStarted):
            self.started.add(record.rank)
        elif isinstance(record, OwnRankEnded):
            self.take_end(record)
        elif isinstance(record, RanksSignalled):
            add_fact(summary.own, Fact(run_events.EndAsked(record.why, 0)))
        elif isinstance(record, PartEnded):
            summary.over = record.why
        elif isinstance(record, LookNoted):
            summary.look, summary.ends = record.ranks, list_rank_ends(self.rank_ends)
        elif isinstance(record, ResultNoted):
            summary.result = record.result
        elif isinstance(record, FactNoted):
            self.take_fact(record.fact, at)

    def take_end(self, record: OwnRankEnded) -> None:
        if record.rank in self.ended:
            return
        self.ended.add(record.rank)
        if record.ended.code == 0:
            self.summary.ok += 1
        elif not self.closing:
            add_fact(self.summary.own, Fact(run_events.RankExited(record.rank, record.ended)))

    def take_fact(self, fact: Fact, seconds: float) -> None:
        """Add a fact that the hub sent to all hosts."""
        event, summary = fact.event, self.summary
        if isinstance(event, run_events.RankExited):
            self.rank_ends.append(fact)
        if isinstance(event, run_events.Begun):
            summary.begun, summary.went = True, seconds
        elif isinstance(event, run_events.Stalled):
            summary.stall = seconds - event.seconds
        elif isinstance(event, run_events.Moving):
            summary.stall = None
        elif isinstance(event, run_events.Noted) and event.cut is not None:
            summary.cut = [(hosts, seconds - age) for hosts, age in event.cut]
        elif run_events.is_decisive(event):
            summary.decided = summary.decided or seconds
            add_fact(summary.facts, shorten_tail(fact, END))
        self.closing = self.closing or isinstance(event, run_events.Over)  # later ends follow


def list_rank_ends(facts: "list[Fact]") -> "list[Fact]":
    """Return the facts about the ends of ranks, without their output."""
    ends = [fact for fact in facts if isinstance(fact.event, run_events.RankExited)]
    return [shorten_tail(fact, 0) for fact in ends]


def add_fact(facts: "list[Fact]", fact: "Fact") -> None:
    if len(facts) < FACTS:
        facts.append(fact)


def read_last_lines(
    folder: str, records: "list[WrittenRecord]"
) -> "tuple[tuple[int, str] | None, list[str]]":
    """Return the last line of the lowest rank that started here, with that rank, and its last lines
    that have a number, in which there may be a step and a loss."""
    ranks = [w.record.rank for w in records if isinstance(w.record, OwnRankStarted)]
    if not ranks:
        return None, []
    text = run_folders.end_of_log(folder, min(ranks), LAST)
    lines = [line.rsplit("\r", 1)[-1] for line in text.split("\n") if line.strip()]
    complete = lines[1:] if len(text) >= LAST else lines  # the first one may lack its beginning
    return ((min(ranks), lines[-1][:400]) if lines else None), list_numbered(complete)[-RECENT:]


def read_told_lines(records: "list[WrittenRecord]") -> "tuple[int, list[str]] | None":
    """Return the lowest rank that has ended, unless a lower one started here, and the last of its
    lines that have a number, as all hosts keep them."""
    own = [w.record.rank for w in records if isinstance(w.record, OwnRankStarted)]
    ends = [fact.event for fact in list_facts(records)]
    tails = {end.rank: end.tail for end in ends if isinstance(end, run_events.RankExited)}
    rank = min((rank for rank, tail in tails.items() if tail), default=None)
    if rank is None or rank >= min(own, default=rank + 1):
        return None
    return rank, list_numbered(tails[rank].splitlines())[-TOLD:]


def list_numbered(lines: "list[str]") -> "list[str]":
    return [line[:LONGEST] for line in lines if any(map(str.isdigit, line))]
