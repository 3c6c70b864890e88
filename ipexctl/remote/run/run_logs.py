"""Send the output of a run's ranks on this host, during the run or after it."""

import os
import time

from ipexctl.common.journal_records import OwnRankStarted
from ipexctl.common.run_events import Fact, LogSizes, Pong
from ipexctl.common.watch_orders import Shown
from ipexctl.remote.own_process import start_thread
from ipexctl.remote.run import control
from ipexctl.remote.run_files import journal, log_follower, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

    Sizes = dict[str, int]  # of logs, by rank
    History = list[tuple[float, Sizes]]

EVERY = 0.5  # seconds between two looks for further ranks
BEAT = 5.0  # seconds between signs of life
LONGEST = 4 << 20  # bytes in which the last lines are looked for


def op_read(
    call: "Call",
    root: str,
    known_as: str,
    run_id: str,
    ranks: "list[int]",
    lines: "int | None",
    since: "float | None",
    times: bool,
    follow: bool,
    window: int,
) -> None:
    """Send the logs of ranks.

    Emits LogPart as during a run. `ranks`: [] for all; `lines`: the last ones of each rank, null
    for all; `since`: only the output of the last seconds, null for all. Without `follow`, one
    rank after the other. Receives Shown. `times`: LogSizes is before a rank's first LogPart.
    """
    folder = run_folders.folder_of(root, run_id)
    follower = log_follower.Follower(call, window)
    start_thread(follower.loop)
    start_thread(receive_shown, call, follower)
    shown_ranks, last_beat = [], time.monotonic()
    history = size_rows(journal.sizes_path(folder, known_as))
    sizes, cutoff = sizes_before(history, since)
    while True:
        alive = follow and control.is_alive(folder, known_as)
        for rank in list_started_ranks(folder, known_as):
            path = run_folders.log_of(folder, rank)
            if rank not in shown_ranks and rank in (ranks or [rank]) and os.path.isfile(path):
                shown_ranks.append(rank)
                offset = max(find_last_lines(path, lines), next_line(path, sizes.get(str(rank), 0)))
                if cutoff is not None and os.stat(path).st_mtime <= cutoff:
                    offset = os.stat(path).st_size
                if times:
                    rows = read_log_growth(history, rank, path)
                    call.emit(Fact(LogSizes(rank, rows, offset)).document())
                follower.add(rank, path, offset)
                if not follow:
                    follower.finish(rank)
                    while follower.has(rank):
                        time.sleep(0.01)
        if not alive:
            follower.close()
            return
        if time.monotonic() - last_beat > BEAT:
            last_beat = time.monotonic()
            call.emit(Fact(Pong()).document())
        time.sleep(EVERY)


def list_started_ranks(folder: str, host: str) -> "list[int]":
    """Return the ranks that started, by the journal; by the logs if another version wrote it."""
    records = journal.read_journal(folder, host)
    ranks = {w.record.rank for w in records if isinstance(w.record, OwnRankStarted)}
    return sorted(ranks) or run_folders.ranks_with_logs(folder)


def size_rows(path: str) -> "History":
    """Return [(when, {rank: size of its log})]; [] if another version wrote the file."""
    try:
        return [
            (float(row["at"]), {rank: int(size) for rank, size in row["sizes"].items()})
            for row in journal.read_lines(path)
        ]
    except (LookupError, TypeError, ValueError, AttributeError):
        return []


def sizes_before(history: "History", since: "float | None") -> "tuple[Sizes, float | None]":
    """Return ({rank: size of its log `since` seconds ago}, that time); ({}, None) if not asked."""
    if since is None:
        return {}, None
    cutoff = time.time() - since
    earlier = [sizes for written_at, sizes in history if written_at <= cutoff]
    return (earlier[-1] if earlier else {}), cutoff


def read_log_growth(history: "History", rank: int, path: str) -> "list[tuple[float, int]]":
    """Return rows of [time, size] for a rank; the last one is its log as it is now."""
    status = os.stat(path)
    rows = [(0.0, 0)]  # type: list[tuple[float, int]]
    for written_at, sizes in history + [(status.st_mtime, {str(rank): status.st_size})]:
        size = sizes.get(str(rank), 0)
        if size >= rows[-1][1]:
            rows.append((written_at, size))
    return rows


def next_line(path: str, offset: int) -> int:
    """Return the offset of the first line that begins at `offset` or later."""
    if offset == 0:
        return 0
    with open(path, "rb") as file:
        file.seek(offset - 1)
        data = file.read(LONGEST)
    return offset + data.find(b"\n") if b"\n" in data else offset


def find_last_lines(path: str, lines: "int | None") -> int:
    """Return the offset at which the last `lines` lines begin; 0 if `lines` is None."""
    if lines is None:
        return 0
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if lines == 0:
            return size
        file.seek(max(0, size - LONGEST))
        data = file.read(LONGEST)
    position = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return size - len(data)
    return size - len(data) + position + 1


def receive_shown(call: "Call", follower: "log_follower.Follower") -> None:
    while True:
        frame = call.recv()
        if frame is None:
            return
        follower.give(Shown.read(frame[0]).bytes)
