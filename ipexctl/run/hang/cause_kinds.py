"""The causes of a hang, in one table: how each is recognized, what it means, what to do.

docs/hangs.md shows it; `tools/table_pages.py` writes it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang import advice, rank_rules, run_rules
from ipexctl.run.hang.hang_report import Blame, RunFinding
from ipexctl.run.hang.hang_view import BlamedRank, HangView
from ipexctl.run.hang.rank_evidence import Activity, RankEvidence

RankRule = Callable[[RankEvidence], Activity | None]
RunRule = Callable[[HangView], RunFinding | Blame | None]


@dataclass(frozen=True)
class CauseKind:
    """A kind of cause. `name`: in JSON; `means`: what such a rank does, in docs/hangs.md.

    `rank_rules`: what recognizes a rank that does this, with its place among the rank rules of
    all causes; the first that applies counts. `run_rule`: what recognizes the cause from all
    ranks; a cause without one applies if ranks that do this are blamed (blamed_ranks.py).
    `advice`: unless the rank rule has some for its case, or `advise`, which looks at the other
    ranks, too, or at threads and children. `verb`: of its headlines.
    `outside_if_all`: if all ranks do this, they wait for something outside the run.
    `stalls`: whether a run with this cause counts as stalled.
    """

    name: str
    means: str
    advice: str
    rank_rules: Mapping[int, RankRule] = field(default_factory=dict)
    run_rule: RunRule | None = None
    advise: Callable[[BlamedRank], str] = lambda _: ""
    verb: tuple[str, str] = ("is", "are")
    outside_if_all: bool = False
    stalls: bool = True


# The run rules are tried in this order. Of several ranks, the first causes explain the others.
TABLE = (
    CauseKind(
        "moving",
        "the run makes progress",
        "",
        run_rule=run_rules.run_moves,
        stalls=False,
    ),
    CauseKind(
        "partition",
        "is on a host that does not reach another one",
        "Check switches, cables and firewalls between them.",
        run_rule=run_rules.hosts_are_cut_off,
    ),
    CauseKind(
        "left-early",
        "has ended, while others wait for it",
        "Its log says why it ended.",
        rank_rules={20: rank_rules.has_ended},
        run_rule=run_rules.ranks_left_early,
    ),
    CauseKind(
        "host-silent",
        "is on a host that does not answer",
        "Check whether the host is up and reachable.",
        run_rule=run_rules.hosts_are_silent,
    ),
    CauseKind(
        "stopped",
        "was stopped with a signal (state T)",
        "Continue it with kill -CONT, or detach the debugger.",
        rank_rules={10: rank_rules.is_stopped},
        run_rule=run_rules.ranks_are_stopped,
    ),
    CauseKind(
        "mismatch",
        "is in another collective than the others, or in the same with another shape",
        "All ranks must call the same collectives in the same order: look for a branch that "
        "depends on the rank or its data.",
        rank_rules={60: rank_rules.exchanges_data},
        run_rule=run_rules.collectives_mismatch,
    ),
    CauseKind(
        "store-key",
        "waits for a key of the store (`store.get`, `store.wait`) that no rank has set; the key is "
        "named",
        "No rank has set it: look for a store.set() that a rank skips, or with another key.",
        rank_rules={35: rank_rules.waits_for_key},
        run_rule=run_rules.key_is_not_set,
    ),
    CauseKind(
        "rendezvous",
        "has not reached `init_process_group`; the address that the others try is named",
        "Check that MASTER_ADDR is reachable from every host.",
        rank_rules={40: rank_rules.joins_run},
        run_rule=run_rules.rendezvous_is_incomplete,
    ),
    CauseKind(
        "blocked-io",
        "waits for a file, pipe, socket or program; the path and the file system are named",
        "Likely: its disk or file server does not answer.",
        rank_rules={
            50: rank_rules.waits_in_kernel,
            130: rank_rules.waits_for_program,
            180: rank_rules.waits_for_file,
        },
        advise=advice.advise_on_blocked,
        verb=("blocks", "block"),
        outside_if_all=True,
    ),
    CauseKind(
        "worker",
        "waits for a worker process that ended or is blocked: of a data loader, a pool, a queue",
        "Likely: a data loader worker hangs.",
        rank_rules={110: rank_rules.waits_for_loader, 170: rank_rules.has_lost_worker},
        advise=advice.advise_on_loader,
    ),
    CauseKind(
        "outside",
        "waits for something outside the run: a server, a terminal, a lock file; or all ranks "
        "wait for the same thing",
        "Likely: it waits for something outside the run.",
        rank_rules={
            120: rank_rules.waits_for_input,
            140: rank_rules.waits_for_file_lock,
            150: rank_rules.waits_for_peer,
        },
        run_rule=run_rules.all_ranks_wait_alike,
        outside_if_all=True,
    ),
    CauseKind(
        "lock",
        "waits for a lock, a queue or another thread",
        "Likely: the thread or process that it waits for is stuck, or has ended.",
        rank_rules={200: rank_rules.waits_for_lock},
        advise=advice.advise_on_lock,
        outside_if_all=True,
    ),
    CauseKind(
        "spinning",
        "uses its CPU in a loop that only waits",
        "Likely: the condition of this loop never becomes true on this rank.",
        rank_rules={80: rank_rules.spins_in_loop},
        advise=advice.advise_on_idle,
        outside_if_all=True,
    ),
    CauseKind(
        "sleeping",
        "sleeps in your code, or in a call such as `sqlite3.Connection.execute`, which is named",
        "It sleeps while the others wait: remove the sleep, or let all ranks wait.",
        rank_rules={160: rank_rules.is_sleeping},
        advise=advice.advise_on_idle,
        outside_if_all=True,
    ),
    CauseKind(
        "computing",
        "computes, and the others wait for it: slow, but not a hang",
        "It may be slow, not stuck: does it do work that the others do not?",
        rank_rules={
            30: rank_rules.runs_program,
            90: rank_rules.is_computing,
            100: rank_rules.waits_for_computing_loader,
            190: rank_rules.computes_in_other_threads,
        },
        advise=advice.advise_on_computing,
        stalls=False,
    ),
    CauseKind(
        "collective",
        "all have arrived in the same collective, and it does not end",
        "Likely: the network between hosts; run ipexctl doctor.",
        run_rule=run_rules.exchange_is_stalled,
    ),
    CauseKind(
        "unknown",
        "the evidence does not tell",
        "The evidence does not tell why.",
        rank_rules={70: rank_rules.lacks_cpu_time, 210: rank_rules.does_unknown_thing},
        run_rule=run_rules.nothing_tells_why,
    ),
)
CAUSES = {cause.name: cause for cause in TABLE}
RANK_RULES = sorted((place, cause.name) for cause in TABLE for place in cause.rank_rules)
