"""Runs for reports, as values: of any size, good, failed, slow, restarted."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ipexctl.common.journal_records import InputsNoted, PartEnded, WrittenRecord
from ipexctl.common.rank_paces import HostSample
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_answers import RecordAnswer
from ipexctl.common.run_events import Begun, Event, Exit, Placement, RankExited, RankStarted
from ipexctl.report.comparison.recorded_inputs import RunRecord
from ipexctl.report.comparison.run_difference import Difference, RunComparison
from ipexctl.report.material import host_record
from ipexctl.report.material.host_record import HostRecord, Printed
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.outcome.run_state import Phase, RunState
from ipexctl.run.outcome.verdict import Verdict
from ipexctl.run.pace.run_speed import Counted, measure_speed
from ipexctl.run.plan.launch import LaunchPlan
from tests.made import noted, written

EVERY = 2.5  # seconds between two samples


def compared(*told: Difference) -> RunComparison:
    """Of two runs whose speed is not known."""
    plan = LaunchPlan((), "10.0.0.1", 29500, ("train.py",), (), "")
    one, other = (RunRecord(name, plan, {}, {}) for name in ("one", "other"))
    return RunComparison(one, other, told)


def names(hosts: int) -> tuple[str, ...]:
    return tuple(f"node{n:02d}" for n in range(1, hosts + 1))


STATE_FIELDS = {field.name for field in fields(RunState)}


def made(phase: Phase = Phase.DONE, *, hosts: int = 2, ppn: int = 1, **more: Any) -> ListedRun:
    """`more`: fields of ListedRun or of its state, or `command`."""
    command = more.pop("command", "train.py")
    verdict = Verdict(0, "ranks", "") if phase is Phase.DONE else None
    if phase is Phase.FAILED:
        end = RankEnd(1, "node02", 1, None)
        verdict = Verdict(1, "rank-failed", "rank 1 on node02 exited with code 1", end)
    base = {
        "id": "20260101-120000-abcdef", "began": 1000.0, "started": hosts * ppn,
        "ok": hosts * ppn, "last": "", "seen": (), "bytes": None,
    }  # fmt: skip
    of_state = {"verdict": verdict, "seconds": 60.0}
    of_state |= {name: more.pop(name) for name in STATE_FIELDS & more.keys()}
    more = {"state": RunState(phase, **of_state), **more}
    about = RunAbout("bert", names(hosts), hosts * ppn, command, "ann@desk", "/home/ann/bert")
    return ListedRun(about=about, **{**base, **more})


def plan(hosts: int, ppn: int, threads: int = 4) -> dict[str, Any]:
    rows = [
        {
            "name": name, "nic": "eth0", "threads": threads, "quota": None, "env": {},
            "ranks": [
                [h * ppn + r, r, f"{r * threads}-{(r + 1) * threads - 1}", 0] for r in range(ppn)
            ],
        }
        for h, name in enumerate(names(hosts))
    ]  # fmt: skip
    return {
        "master": ["10.0.0.1", 29500], "argv": ["train.py"], "mpi": "mpich", "ddp": True,
        "hosts": rows,
    }  # fmt: skip


def record(
    host: int, hosts: int, ppn: int, *, seconds: float = 60.0, busy: float = 3.0, tail: str = "",
    facts: tuple[tuple[float, Event], ...] = (), ended: bool = True, began: float = 1000.0,
) -> HostRecord:  # fmt: skip
    """As the host sends it. `busy`: CPUs that each of its ranks keeps busy, of 4."""
    own = range(host * ppn, (host + 1) * ppn)
    inputs = {
        "sockets": [[0, 0, [[c] for c in range(ppn * 4)]]],
        "before": {"hosts": 0.4, "sync": 1.2, "plan": 0.1},
        "variables": {"OMP_NUM_THREADS": "4", "TOKEN": "****"},
        "reasons": {"OMP_NUM_THREADS": "a thread for each core"},
    }
    noted_inputs = InputsNoted(inputs, {"environment": "abc123", "packages": {}})
    records = written(noted_inputs, noted(Begun(plan(hosts, ppn))))
    name = names(hosts)
    for rank in range(hosts * ppn):
        where = Placement(tuple(range((rank % ppn) * 4, (rank % ppn) * 4 + 4)))
        started = RankStarted(rank, 100 + rank, where)
        records += written(noted(started, name[rank // ppn]), at=0.5)
    records += [WrittenRecord(noted(event), at) for at, event in facts]
    for rank in range(hosts * ppn) if ended else ():
        end = RankExited(rank, Exit(1 if tail else 0), tail)
        records += written(noted(end, name[rank // ppn]), at=seconds - 0.5)
    records += written(PartEnded("ended", 0), at=seconds) if ended else []
    samples = [
        HostSample(
            at, 0.7, 3e9, 2e6, {r: (busy, int(1e6 * at), (0.1 * at,)) for r in own}
        )
        for at in (EVERY * n for n in range(1, int(seconds / EVERY)))
    ]  # fmt: skip
    return host_record.read_host_record(name[host], RecordAnswer(began, records, samples))


def lines(
    ranks: int, steps: int, *, since: float = 5.0, seconds: float = 50.0, slow: int = -1
) -> tuple[Printed, ...]:
    """`slow`: this rank takes half as long again for each step."""
    found = []
    for rank in range(ranks):
        factor = 1.5 if rank == slow else 1.0
        for step in range(1, steps + 1):
            at = since + seconds * step / steps * factor
            found.append(Printed(step, steps, loss=1 / step + rank * 1e-4, rank=rank, at=at))
    return tuple(found)


def attempt(run: ListedRun, *, steps: int = 100, slow: float = 3.0, **more: Any) -> Attempt:
    """`slow`: CPUs that ranks of all hosts but the last keep busy; that one: 3 of 4."""
    hosts = len(run.about.hosts)
    ppn = run.about.ranks // hosts
    records = tuple(
        record(h, hosts, ppn, busy=3.0 if h == hosts - 1 else slow, began=run.began, **more)
        for h in range(hosts)
    )
    printed = lines(run.about.ranks, steps)
    own = [Counted(p.at or 0.0, p.step or 0) for p in printed if p.rank == 0]
    return Attempt(run, records, printed, speed=measure_speed(own))


def material(*attempts: Attempt, **more: Any) -> Material:
    return Material(attempts=attempts, made="2026-01-01 12:00", **more)
