"""Steps per second, from the last lines that a rank has printed and the times at which it did."""

from __future__ import annotations

from ipexctl.base.host_answer import Answer
from ipexctl.errors import IpexctlError
from ipexctl.machines.fleet import Fleet
from ipexctl.run.jobs.logs import SILENCE, WINDOW
from ipexctl.run.jobs.ps import reached
from ipexctl.run.outcome.listed_runs import Run
from ipexctl.run.output.log_times import LogTimes
from ipexctl.run.output.rank_lines import Lines
from ipexctl.run.output.training_state import Training
from ipexctl.shipped_tables import metric_formats

LINES = 400
LARGEST = 8 << 20  # bytes


def rate(fleet: Fleet, run: Run, name: str, rank: int) -> float | None:
    """None where its lines do not say it, or the host of that name is not reached."""
    host = reached(fleet, run).get(name)
    if host is None:
        return None
    asked = {
        "root": fleet.root_of(host), "journal": name, "run_id": run.id, "ranks": [rank],
        "lines": LINES, "since": None, "times": True, "follow": False, "window": WINDOW,
    }  # fmt: skip
    agent, rows, data = fleet.agents[host], list[list[float]](), b""
    try:
        number = agent.start("run.run_logs.read", asked)
        for frame in agent.answers(number, SILENCE, LARGEST):
            if frame.header.get("event") == "sizes":
                rows = Answer(host.name, frame.header).rows("rows", float, int)
            elif frame.header.get("event") == "log":
                data += frame.body
                agent.feed(number, {"shown": len(frame.body)})
    except IpexctlError:
        return None
    return of_lines([(at, int(size)) for at, size in rows], data)


def of_lines(sizes: list[tuple[float, int]], data: bytes) -> float | None:
    """`data`: the end of a log that had these sizes at these times; the last is that of now."""
    if not sizes:
        return None
    start = max(0, sizes[-1][1] - len(data))
    before = max((i for i, (_, size) in enumerate(sizes) if size <= start), default=0)
    clock = LogTimes([(at, max(0, size - start)) for at, size in sizes[before:]])
    training, stream, last = Training(metric_formats()), Lines(bars=True), 0.0
    for piece, span in clock.pieces(data):
        texts = stream.feed(piece)
        for index, text in enumerate(texts, 1):
            if span:
                last = span[0] + (span[1] - span[0]) * index / len(texts)
            training.lines(0, [text], last)
    return training.progress(last).rate
