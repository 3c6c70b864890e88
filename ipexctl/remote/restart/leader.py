"""Decides when a run is started again. No I/O, no clock: `now` is given.

One of the voters leads. Each host tells it how its part of the run is (`HostReport`, host_part.py).
What the leader wants, it puts into the record; what is in the record, it orders.
"""

from ipexctl.common.addresses import peer_url
from ipexctl.common.attempt_record import (
    USED,
    AttemptBegins,
    AttemptEnded,
    AttemptRuns,
    AttemptSucceeded,
    QueuedRun,
    RunEnded,
    StopNoted,
    describe_place,
)
from ipexctl.common.checkpoint_names import step_of
from ipexctl.common.keeper_messages import (
    CLAIMS,
    LEFT,
    WAITS,
    BeginPart,
    HostReport,
    KeeperOrder,
    PartOver,
)
from ipexctl.common.restart_plan import RestartPlan, VoterPlan
from ipexctl.common.run_events import Fact, HostLost
from ipexctl.remote.checkpoints.checkpoint_rules import LAID_OUT
from ipexctl.remote.checkpoints.newest_checkpoint import newest_complete_checkpoint
from ipexctl.remote.restart import attempt_orders, restart_policy
from ipexctl.remote.restart.record import RestartRecord

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Iterable, Iterator, Sized

    from typing_extensions import Literal

    from ipexctl.common.attempt_record import RecordLine
    from ipexctl.common.keeper_messages import CheckpointLayout, QueuePlace
    from ipexctl.common.run_orders import StartOrder
    from ipexctl.remote.checkpoints.newest_checkpoint import SkippedCheckpoints

GATHER = 3.0  # seconds after the first report, for those of the other hosts
CLEAR = 25.0  # for the hosts to end what is left
HOLDER = 300.0  # for a host that holds a checkpoint to come back, where no other does
# Beyond the lease, until a host that is not heard has ended its ranks: its keeper does after ALONE
# (keeper.py), the guardian of a frozen supervisor after PATIENCE (run/guardian.py). Not less.
FENCE = 7.0
BEGIN = 90.0  # for all hosts of an attempt to be ready


def too_few(hosts: "Sized") -> str:
    count = len(hosts)
    return "1 host is too few" if count == 1 else "%d hosts are too few" % count


def advise_fewer(hosts: "Sized") -> str:
    return "with --min-hosts %d it would have gone on" % len(hosts) if hosts else ""


class Leader:
    def __init__(
        self, restart_plan: VoterPlan, name: str, record: RestartRecord, now: float
    ) -> None:
        self.restart_plan, self.name, self.record = restart_plan, name, record
        self.names = restart_plan.hosts
        self.heard = dict.fromkeys(self.names, now)  # when each was last connected
        self.at = "", 0  # the phase of the record that it has seen
        self.waits = ""  # for what, as ps shows
        self.before: "list[QueuedRun]" = []  # in the queue, in its order
        self.queue: "dict[str, str]" = {}  # what each host does for its CPUs, with --queue
        self.claiming: "list[str]" = []  # the hosts that claim theirs
        self.ended = now  # when the last attempt had ended on a host
        self.watch(now, set())

    def watch(self, now: float, reached: "set[str]") -> None:
        self.since = self.came = now
        self.known = set(reached)  # hosts that were connected at the last look
        self.first_report = None  # type: float | None

    def tick(
        self, now: float, reached: "set[str]", states: "dict[str, HostReport]"
    ) -> "RecordLine | None":
        """Return the next line of the record, or None. `reached`: hosts with a connection;
        `states`: the last report of each host."""
        reached = reached | {self.name}
        self.heard.update(dict.fromkeys(reached, now))
        phase = self.record.phase(), self.record.number
        if phase != self.at:
            self.at = phase
            self.watch(now, reached)
        if not reached <= self.known:
            self.came = now
        self.known = set(reached)
        self.waits = ""
        if self.record.end is not None:
            return None
        stop = [state.stop for state in states.values() if state.stop]
        if stop and not self.record.stopped:
            return StopNoted(stop[0])
        return PHASES[phase[0]](self, now, reached, states)

    # -- an attempt runs --

    def in_watch(
        self, now: float, reached: "set[str]", states: "dict[str, HostReport]"
    ) -> "RecordLine | None":
        """Return the line that ends the attempt when its hosts have reported or are lost."""
        record, lease = self.record, self.restart_plan.lease
        parts = {host: state.over for host, state in states.items() if state.over}
        parts = {host: part for host, part in parts.items() if part.attempt == record.number}
        reports = [parts[host] for host in self.names if host in parts]
        if record.succeeded == record.number:
            return self.in_success(now, set(record.hosts) & (reached - set(parts)), reports)
        if any(state.succeeded == record.number for state in states.values()):
            return AttemptSucceeded(record.number)
        # what ended the attempt after its last rank had ended with 0 does not count
        finished = all(host in parts and parts[host].finished for host in record.hosts)
        if finished or any(report.well for report in reports):
            return RunEnded("done", True)
        if not reports:  # all hosts of the attempt have gone
            last_heard = max(self.heard[host] for host in record.hosts)
            return self.end_attempt({}, reached, now) if now - last_heard > lease + FENCE else None
        if self.first_report is None:
            self.first_report = now
        facts = [fact for report in reports for fact in report.facts]
        lost = {fact.host for fact in facts if isinstance(fact.event, HostLost)}
        # one that is not connected, and that no host lost, may be back at once
        awaited = (set(record.hosts) & reached | set(record.hosts) - lost) - set(parts)
        if not awaited or now - self.first_report > GATHER:
            return self.end_attempt(parts, reached, now)
        return None

    def in_success(
        self, now: float, awaited: "set[str]", reports: "list[PartOver]"
    ) -> "RunEnded | None":
        """Return the end of the run when no host copies its last checkpoint any more. `awaited`:
        hosts that have not ended their part."""
        if reports and self.first_report is None:
            self.first_report = now
        is_late = self.first_report is not None and now - self.first_report > BEGIN
        return RunEnded("done", True) if is_late or not awaited else None

    def end_attempt(
        self, parts: "dict[str, PartOver]", reached: "set[str]", now: float
    ) -> "AttemptEnded":
        """Return the AttemptEnded line, from the reports of hosts that have ended their part."""
        reports = [parts[host] for host in self.names if host in parts]
        facts: "list[Fact]" = max([[], *(report.facts for report in reports)], key=len)
        lasted = max((report.seconds for report in reports), default=0.0)
        last, complete = max([(0, ""), *((report.number, report.complete) for report in reports)])
        self.ended = now - max((report.ago for report in reports), default=0.0)
        # perhaps no host noted why: a command ended the run first, a keeper was started again and
        # has no state of its part, or a keeper without a leader ended its part
        silent = [host for host in self.record.hosts if host not in parts]
        lost = [host for host in silent if host not in reached] or min(silent, list(parts), key=len)
        end = restart_policy.classify_ending(
            facts or [Fact(HostLost(""), host) for host in lost],
            lasted,
            self.path_test(),
            has_spare=self.has_spare(reached),
        )
        present = reached | set(parts) | set(end.lost)
        away = [host for host in self.record.hosts if host not in present]
        return end.attempt_ended(self.record.number, True, lasted, complete, last, away)

    def has_spare(self, reached: "set[str]") -> bool:
        """Return whether a host can take the place of one that lacks what the others have."""
        record = self.record
        return len(record.hosts) > 1 and bool(reached - set(record.hosts) - record.weak())

    def path_test(self) -> "Callable[[str], bool]":
        """Return a function that tells whether a path is one of the attempt's checkpoints."""
        begins, plans = self.record.attempts[-1], self.restart_plan.host_plans
        orders = [plans[host].asked for host in begins.hosts if host in plans]
        return restart_policy.make_path_test(
            {order.cwd for order in orders},
            [pattern for order in orders[:1] for pattern in order.checkpoints],
            begins.checkpoint,
        )

    # -- it has ended --

    def in_clear(
        self, now: float, reached: "set[str]", states: "dict[str, HostReport]"
    ) -> "RecordLine | None":
        """Return the line that begins the next attempt or ends the run; None while hosts clear."""
        record, ending = self.record, self.record.endings[-1]
        if self.queues_again():
            ended = {host for host in reached if self.has_cleared(host, states)}
            return self.in_queue(now, reached, states) if self.is_fenced(now, ended) else None
        if record.stopped:
            return RunEnded("stopped by %s" % record.stopped, False, by_user=True)
        restarts = self.restart_plan.restarts
        why = restart_policy.why_none_left(ending, record.used(), restarts)
        if why:
            return RunEnded(why, False)
        reports = {host: state.cleared for host, state in states.items() if host in reached}
        attempt = record.cleared()
        cleared = {host: part for host, part in reports.items() if part and part.attempt == attempt}
        done = reached <= set(cleared) or now - self.came > CLEAR
        paused = now - self.since >= restart_policy.restart_pause(record.endings)
        if not (done and paused and self.is_fenced(now, cleared)):
            return None
        usable = set(cleared)
        if self.restart_plan.queued:
            places = {host: states[host].place for host in usable}
            usable = {host for host, place in places.items() if place and place.claimed}
        unreliable = record.weak()
        chosen = self.choose_hosts(usable - unreliable) or self.choose_hosts(usable)
        remaining = self.restart_plan.returns - now + self.since
        if not chosen and remaining > 0:
            self.waits = "%s; others may come back (%d s left)" % (too_few(usable), remaining)
            return None
        checkpoints = {host: part.checkpoints for host, part in cleared.items()}
        skips = record.skips()
        newest = newest_complete_checkpoint(checkpoints, skips=skips)
        if self.is_last_away(newest, skips):
            decision = self.wait_for_checkpoint(now, reached)
            if decision is not True:
                return decision
        name = newest.name if newest else ""
        why = self.why_in_vain(newest, skips, usable - unreliable)
        if why or not chosen:
            texts = [ending.why, too_few(usable), advise_fewer(usable)]
            return RunEnded(why or "; ".join(filter(None, texts)), False)
        open_names = {path for part in cleared.values() for path in part.open} - {name}
        return AttemptBegins(
            record.number + 1,
            chosen,
            why=ending.why,
            error=ending.error,
            lasted=ending.lasted,
            checkpoint=name,
            kept=self.restart_plan.kept,
            age=newest.age if newest else None,
            version=list(newest.version) if newest else [],
            skipped=list(skips.reasons.values()),
            open=sorted(open_names, key=lambda path: (step_of(path) or 0, path)),
            away="" if newest else record.complete,
        )

    def why_in_vain(
        self, newest: "CheckpointLayout | None", skips: "SkippedCheckpoints", reliable: "set[str]"
    ) -> str:
        """Return why no further attempt would help, "" if one may."""
        record, ending = self.record, self.record.endings[-1]
        if len(record.in_vain()) > len(self.names):
            texts = [ending.why, "no attempt began", advise_fewer(reliable)]
            return "; ".join(filter(None, texts))
        errors = [(begins.error, skips.origin(begins.version)) for begins in record.attempts[1:]]
        errors.append((ending.error, skips.origin(newest.version if newest else ())))
        return restart_policy.why_same_again(ending, errors[-2:])

    def is_fenced(self, now: float, cleared: "Iterable[str]") -> bool:
        """Return whether every silent host of the attempt must have ended its ranks by now."""
        record, lease = self.record, self.restart_plan.lease
        for host in set(record.hosts) - set(cleared):
            if now - self.since < FENCE:
                return False
            was_lost = host in record.endings[-1].lost  # then its lease is over already
            if not was_lost and now - max(self.heard[host], self.ended) < FENCE + lease:
                return False
        return True

    def is_last_away(self, newest: "CheckpointLayout | None", skips: "SkippedCheckpoints") -> bool:
        """Return whether no host that is reached has the last checkpoint that was complete: a copy
        of the one from which the attempt began is no substitute."""
        record = self.record
        if not record.complete or (record.version and skips.has(record.version)):
            return False
        if newest is None:
            return True
        return newest.version[1] == LAID_OUT and newest.version < record.version

    def wait_for_checkpoint(
        self, now: float, reached: "set[str]"
    ) -> "RunEnded | Literal[True] | None":
        """Choose the checkpoint to begin with. Return None while a lost host may have it, True to
        begin without one, or the end of the run."""
        if self.restart_plan.without == "begin":
            return True
        name = self.record.complete
        wait = max(HOLDER, self.restart_plan.lease, self.restart_plan.returns) - now + self.since
        away = ", ".join(host for host in self.names if host not in reached)
        if away and wait > 0:
            self.waits = "no host in reach has %s; %s may come back (%d s left)" % (
                name,
                away,
                wait,
            )
            return None
        return RunEnded("no host that is reached has %s (--without-checkpoint)" % name, False)

    def choose_hosts(self, usable: "set[str]") -> "list[str]":
        first_hosts, least = self.record.attempts[0].hosts, self.restart_plan.least
        return restart_policy.choose_next_hosts(
            self.record.hosts, self.names, usable, least, len(first_hosts)
        )

    # -- it waits for CPUs --

    def in_queue(
        self, now: float, reached: "set[str]", states: "dict[str, HostReport]"
    ) -> "RecordLine | None":
        """Return the line that begins an attempt when the run has its CPUs on enough hosts.

        It takes the first hosts on which it is the next one and that are free, once they are
        enough; the others stay in the queue until it has claimed these. If one host cannot claim,
        another run was faster there: then it takes other hosts, or gives all up, so that no two
        runs wait for each other. While too few hosts can be had, they let later runs go first.
        """
        if self.record.stopped:
            return RunEnded("stopped by %s" % self.record.stopped, False, by_user=True)
        if now - self.since < GATHER and not reached <= set(states):
            return None  # the hosts do what an earlier leader ordered
        places = self.find_usable_places(reached, states)
        waiting = {run for place in places.values() for run in place.before}
        self.before = sorted(waiting, key=lambda run: (run.since, run.run))
        using = sorted({run for place in places.values() for run in place.using})
        free = [host for host, place in places.items() if not (place.before or place.using)]
        lacking = self.count_lacking(places)
        chosen = [] if self.count_lacking(free) else self.choose_queued(free)
        self.queue = dict.fromkeys(self.names, LEFT)
        self.queue.update(dict.fromkeys([] if lacking else places, WAITS))
        self.queue.update(dict.fromkeys(chosen, CLAIMS))
        if chosen and all(places[host].claimed for host in chosen):
            return self.begin_queued([host for host in chosen if host in self.restart_plan.first])
        self.waits = self.describe_place(using, states, lacking)
        return None

    def find_usable_places(
        self, reached: "set[str]", states: "dict[str, HostReport]"
    ) -> "dict[str, QueuePlace]":
        """Return {host: QueuePlace} of those that can take part in the next attempt."""
        there = [host for host in self.names if host in reached & set(states)]
        there = [host for host in there if self.has_cleared(host, states)]
        places = {host: states[host].place for host in there if host not in self.record.weak()}
        return {host: place for host, place in places.items() if place and not place.lacks}

    def has_cleared(self, host: str, states: "dict[str, HostReport]") -> bool:
        last, cleared = self.record.cleared(), states[host].cleared if host in states else None
        return not last or (cleared is not None and cleared.attempt == last)

    def count_lacking(self, hosts: "Iterable[str]") -> int:
        """Return how many hosts are missing for an attempt on these hosts: all spares take part."""
        spares = set(self.names) - set(self.restart_plan.first)
        enough = len(self.restart_plan.ranks) - len(set(hosts) - spares)
        return max(0, enough) + len(spares - set(hosts))

    def choose_queued(self, free: "list[str]") -> "list[str]":
        """Return the spares, and as many of the free hosts as the run needs: those that it claims
        already, as long as they are free."""
        first = [host for host in self.restart_plan.first if host in free]
        count = len(self.restart_plan.ranks)
        if not set(self.claiming) <= set(first) or len(self.claiming) != count:
            self.claiming = first[:count]
        return self.claiming + [host for host in free if host not in self.restart_plan.first]

    def begin_queued(self, hosts: "list[str]") -> "AttemptBegins":
        record = self.record
        why = record.endings[-1].why if record.endings else ""
        return AttemptBegins(record.number + 1, hosts, why=why)

    def describe_place(
        self, using: "list[str]", states: "dict[str, HostReport]", lacking: int
    ) -> str:
        places = {host: state.place for host, state in states.items() if state.place}
        known, weak = self.known & set(places), self.record.weak()
        away = [host for host in self.names if lacking and host not in known and host not in weak]
        lacking_hosts = {}  # type: dict[str, list[str]]
        for host, place in places.items():
            lacking_hosts.setdefault(place.lacks, []).append(host)
        lacks = ["%s: %s" % (", ".join(names), why) for why, names in lacking_hosts.items() if why]
        texts = [
            *describe_place(self.before),
            USED + ", ".join(using) if using else "",
            "not reached: %s, so later runs go first" % ", ".join(away) if away else "",
            *lacks,
        ]
        if lacking and not away:
            texts.append("%d of its hosts cannot be used" % lacking)
        return "; ".join(filter(None, texts))

    def queues_again(self) -> bool:
        """Return whether a queued run whose ranks have not started goes on to its other hosts."""
        record, plan = self.record, self.restart_plan
        if not plan.queued or record.stopped or len(record.in_vain()) != len(record.endings):
            return False
        left = [host for host in plan.first if host not in record.weak()]
        return record.endings[-1].again and len(left) >= len(plan.ranks)

    # -- it begins --

    def in_begin(
        self, now: float, reached: "set[str]", states: "dict[str, HostReport]"
    ) -> "RecordLine | None":
        """Return AttemptRuns when all hosts are ready, AttemptEnded if one cannot begin. No rank
        starts after a user has stopped the run: not all hosts may have a supervisor to ask."""
        record = self.record
        if record.stopped:
            end = restart_policy.Ending(False, restart_policy.STOPPED)
            return end.attempt_ended(record.number, False)
        for host in record.hosts:
            failed = states[host].failed if host in states else None
            if failed and failed.attempt == record.number:
                return self.in_vain(host, failed.why)
            if host not in reached:
                return self.in_vain(host, "the connection ended")
        unready = [host for host in record.hosts if self.find_port(states, host) is None]
        if not unready:
            return AttemptRuns(record.number)
        if now - self.since > BEGIN:
            return self.in_vain(unready[0], "it was not ready after %d s" % BEGIN)
        return None

    def in_vain(self, host: str, why: str) -> "AttemptEnded":
        end = restart_policy.Ending(True, "%s: %s" % (host, why), lost=[host])
        return end.attempt_ended(self.record.number, False)

    def find_port(self, states: "dict[str, HostReport]", host: str) -> "int | None":
        ready = states[host].ready if host in states else None
        return ready.port if ready and ready.attempt == self.record.number else None

    # -- what the hosts are to do --

    def orders(self, states: "dict[str, HostReport]") -> "dict[str, KeeperOrder]":
        """Return {host: KeeperOrder}, as the record requires it."""
        record = self.record
        number, clear, end = record.number, record.cleared(), record.end
        orders = {
            host: KeeperOrder(number, clear, end, queue=self.order_cpus(host))
            for host in self.names
        }
        phase = record.phase()
        port = self.find_port(states, record.hosts[0]) if phase == "watch" else None
        if phase == "begin" and not record.stopped:
            for begin in self.begins(states):
                orders[begin.asked.host].begin = begin
        elif port is not None:
            address = self.restart_plan.find_plans(record.hosts)[0].address
            for host in record.hosts:
                orders[host].hub = address, port
        return orders

    def order_cpus(self, host: str) -> str:
        """Return what a host of a queued run does for its CPUs. Those of an attempt, and spares,
        keep theirs until the run is over: they may be in the next one."""
        record, plan = self.record, self.restart_plan
        if not record.attempts or (record.phase() == "clear" and self.queues_again()):
            return self.queue.get(host, "")
        ran = {end.attempt for end in record.endings if end.ran} | {record.number}
        kept = {name for line in record.attempts if line.attempt in ran for name in line.hosts}
        return CLAIMS if host in kept or host not in plan.first else LEFT

    def begins(self, states: "dict[str, HostReport]") -> "Iterator[BeginPart]":
        """Yield the BeginPart of each host of the attempt that begins."""
        line, plans = self.record.attempts[-1], self.restart_plan.host_plans
        cleared = {host: state.cleared for host, state in states.items() if state.cleared}
        layout = None
        if line.checkpoint:
            checkpoints = {host: part.checkpoints for host, part in cleared.items()}
            layout = newest_complete_checkpoint(
                checkpoints, tuple(line.version), self.record.skips()
            )
            if layout is None:
                return  # the hosts have not told this leader yet
            for *_, givers in layout.parts:
                givers[:] = [peer_url(plans[host].peer, cleared[host].port) for host in givers]
        chosen = self.restart_plan.find_plans(line.hosts)
        laid_folders = set()
        for order in attempt_orders.compose_orders(
            self.restart_plan.common, chosen, line.attempt, line.checkpoint
        ):
            work = plans[order.host].work
            is_first = work not in laid_folders
            tidies = is_first and self.restart_plan.kept and line.attempt > 1
            yield BeginPart(order, layout if is_first else None, tidies)
            laid_folders.add(work)  # of hosts that share the folder, only the first lays out

    def make_returned_order(self, name: str) -> "StartOrder | None":
        """Return a StartOrder for the keeper of a host that was away, None if the run lacks it."""
        if name not in self.restart_plan.host_plans:
            return None
        is_voter = name in [place[0] for place in self.restart_plan.places]
        plan = self.restart_plan if is_voter else RestartPlan.read(vars(self.restart_plan))
        order = self.restart_plan.host_plans[name].asked
        return order.replace(restart_plan=plan.document(), spare=True, returned=True)


PHASES = {  # what the leader does in each phase of the record
    "queue": Leader.in_queue,
    "begin": Leader.in_begin,
    "watch": Leader.in_watch,
    "clear": Leader.in_clear,
}
