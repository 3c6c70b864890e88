"""Send what this host recorded of many runs, in one request: for the page of all runs."""

import os

from ipexctl.common.journal_records import (
    FactNoted,
    InputsNoted,
    JournalRecord,
    PaceNoted,
    RunBegan,
)
from ipexctl.common.run_answers import LogRecorded, RecordAnswer, RunRecorded
from ipexctl.common.run_events import Begun
from ipexctl.remote.run import run_list, run_logs
from ipexctl.remote.run_files import journal, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

MOST_LOG, PART = 128 << 10, 8 << 10  # bytes: of a longer log, parts from all of it
MOST_SIZES = 1000  # rows by which a log is dated


def op_read(call: "Call", root: str, known_as: str, run_ids: "list[str]") -> None:
    """Emit a PageEvent for each run, and for the logs of its first and last rank if they were
    here."""
    for run_id in run_ids:
        folder = run_folders.folder_of(root, run_id)
        name = run_list.name_in(folder, known_as)
        records = journal.read_journal(folder, name)
        kept = [written for written in records if is_of_page(written.record)]
        record = RecordAnswer(run_list.when_began(records) or 0.0, kept)
        call.emit({"event": RunRecorded(run_id, record).document()})
        history = run_logs.size_rows(journal.sizes_path(folder, name))
        abouts = [w.record.about for w in records if isinstance(w.record, RunBegan)]
        ranks = abouts[0].ranks if abouts else 1
        here = run_logs.list_started_ranks(folder, name)
        for rank in sorted({0, ranks - 1}.intersection(here)):
            path = run_folders.log_of(folder, rank)
            if os.path.isfile(path):
                sizes = run_logs.read_log_growth(history, rank, path)
                step = -(-len(sizes) // MOST_SIZES)
                parts, body = read_parts(path)
                log = LogRecorded(run_id, rank, sizes[:-1:step] + sizes[-1:], parts)
                call.emit({"event": log.document()}, body)


def is_of_page(record: JournalRecord) -> bool:
    """Return whether the page needs the record: the inputs, the plan, and what ranks did in all."""
    if isinstance(record, FactNoted):
        return isinstance(record.fact.event, Begun)
    return isinstance(record, (InputsNoted, PaceNoted))


def read_parts(path: str) -> "tuple[list[tuple[int, int]], bytes]":
    """Return [(offset, bytes)] of a log and these bytes: all of it, or complete lines from parts at
    equal distances, with the first and the last one."""
    size = os.stat(path).st_size
    count = MOST_LOG // PART
    starts = [number * (size - PART) // (count - 1) for number in range(count)]
    parts, pieces = [], []
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        for start in starts if size > MOST_LOG else [0]:
            file.seek(start)
            data = file.read(PART if size > MOST_LOG else MOST_LOG)
            first = data.find(b"\n") + 1 if start else 0
            last = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            parts.append((start + first, max(first, last) - first))
            pieces.append(data[first : max(first, last)])
    return parts, b"".join(pieces)
