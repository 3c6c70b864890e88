"""Decides when a run is started again. No I/O, no clock: `now` is given.

One of the voters leads. Each host tells it how its part of the run is (`mine`, keeper.py). What the
leader wants, it puts into the record; what is in the record, it orders.
"""

from ipexctl.common.addresses import peer_url
from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    AttemptRuns,
    RunEnded,
    StopNoted,
)
from ipexctl.common.keeper_messages import BeginPart, HostReport, KeeperOrder, PartOver
from ipexctl.common.restart_plan import RestartPlan, VoterPlan
from ipexctl.remote.checkpoints.checkpoint_rules import step_of
from ipexctl.remote.checkpoints.newest_checkpoint import newest_complete_checkpoint
from ipexctl.remote.restart import attempt_orders, restart_policy
from ipexctl.remote.restart.record import RestartRecord

GATHER = 3.0  # seconds after the first report, for those of the other hosts
CLEAR = 25.0  # for the hosts to end what is left
AWAY = 60.0  # for hosts to come back, if there are too few
HOLDER = 300.0  # for a host that holds a checkpoint to come back, where no other does
FENCE = 7.0  # beyond the lease, until a host that is not heard has ended its ranks
BEGIN = 90.0  # for all hosts of an attempt to be ready


class Leader:
    def __init__(self, restart_plan: VoterPlan, name, record: RestartRecord, now):
        self.restart_plan, self.name, self.record = restart_plan, name, record
        self.names = restart_plan.hosts
        self.heard = dict.fromkeys(self.names, now)  # when each was there last
        self.at = "", 0  # the phase of the record that it has seen
        self.waits = ""  # for what, as ps shows
        self.ended = now  # when the last attempt had ended on a host
        self.watch(now, set())

    def watch(self, now, there):
        self.since = self.came = now
        self.known = set(there)  # hosts that were there at the last look
        self.first_report = None

    def tick(self, now, there, mine: "dict[str, HostReport]"):
        """The next line of the record, None where there is none. `there`: hosts with a connection;
        `mine`: what each host said last."""
        there = there | {self.name}
        self.heard.update(dict.fromkeys(there, now))
        at = self.record.phase(), self.record.number
        if at != self.at:
            self.at = at
            self.watch(now, there)
        if not there <= self.known:
            self.came = now
        self.known = set(there)
        self.waits = ""
        if self.record.end is not None:
            return None
        stop = [said.stop for said in mine.values() if said.stop]
        if stop and not self.record.stopped:
            return StopNoted(stop[0])
        return getattr(self, "in_%s" % at[0])(now, there, mine)

    # -- an attempt runs --

    def in_watch(self, now, there, mine: "dict[str, HostReport]"):
        record, lease = self.record, self.restart_plan.lease
        told = {host: said.over for host, said in mine.items() if said.over}
        told = {h: over for h, over in told.items() if over.attempt == record.number}
        reports = [told[host] for host in self.names if host in told]
        # what ended the attempt after its last rank had ended with 0 does not count
        finished = all(host in told and told[host].finished for host in record.hosts)
        if finished or any(report.well for report in reports):
            return RunEnded("done", True)
        if not reports:  # all hosts of the attempt have gone
            left = max(self.heard[host] for host in record.hosts)
            return self.over({}, there, now) if now - left > lease + FENCE else None
        if self.first_report is None:
            self.first_report = now
        facts = [fact for report in reports for fact in report.facts]
        lost = {fact.get("host") for fact in facts if fact.get("event") == "lost"}
        # one that is not connected, and that no host lost, may be back at once
        awaited = (set(record.hosts) & there | set(record.hosts) - lost) - set(told)
        if not awaited or now - self.first_report > GATHER:
            return self.over(told, there, now)
        return None

    def over(self, told: "dict[str, PartOver]", there, now):
        reports = [told[host] for host in self.names if host in told]
        most = max([[], *(report.facts for report in reports)], key=len)
        lasted = max((report.seconds for report in reports), default=0.0)
        complete = next((one.complete for one in reports if one.complete), "")
        self.ended = now - max((report.ago for report in reports), default=0.0)
        # those who watched the run may have ended the rest of it before that was noted, a keeper
        # that was started again knows nothing of its part, and one may have ended its part alone
        silent = [h for h in self.record.hosts if h not in told]
        gone = [h for h in silent if h not in there] or min(silent, list(told), key=len)
        end = restart_policy.classify_ending(
            most or [{"event": "lost", "host": h} for h in gone], lasted
        )
        away = [h for h in self.record.hosts if h not in there | set(told) | set(end["lost"])]
        if away:
            end["why"] += "; not reached: %s" % ", ".join(away)
        number = self.record.number
        return AttemptEnded(number, True, **end, lasted=lasted, complete=complete, away=away)

    # -- it has ended --

    def in_clear(self, now, there, mine: "dict[str, HostReport]"):
        record, last = self.record, self.record.endings[-1]
        if record.stopped:
            return RunEnded("stopped by %s" % record.stopped, False, by_user=True)
        if not last.again:
            return RunEnded(last.why, False)
        cleared = {h: said.cleared for h, said in mine.items() if h in there and said.cleared}
        cleared = {h: one for h, one in cleared.items() if one.attempt == record.cleared()}
        done = there <= set(cleared) or now - self.came > CLEAR
        waited = now - self.since >= restart_policy.restart_pause(record.endings)
        if not (done and waited and self.fenced(now, cleared)):
            return None
        usable = set(cleared)
        weak = record.weak()
        chosen = self.choose(usable - weak) or self.choose(usable)
        if not chosen and now - self.since < AWAY:
            self.waits = "%d hosts are too few" % len(usable)
            return None
        told = {host: said.checkpoints for host, said in cleared.items()}
        found = newest_complete_checkpoint(told)
        if record.complete and not found:
            waited = self.for_checkpoint(now, there)
            if waited is not True:
                return waited
        name = found.name if found else ""
        errors = [(one.error, one.checkpoint) for one in record.attempts[1:]]
        errors.append((last.error, name))
        why = restart_policy.why_no_restart(
            last, errors[-2:], record.used(), self.restart_plan.restarts
        )
        if len(record.in_vain()) > len(self.names):
            why = "%s; no attempt began" % last.why
        if why or not chosen:
            few = "%s; %d hosts are too few" % (last.why, len(usable))
            return RunEnded(why or few, False)
        left = {one for said in cleared.values() for one in said.open} - {name}
        return AttemptBegins(
            record.number + 1,
            chosen,
            why=last.why,
            error=last.error,
            lasted=last.lasted,
            checkpoint=name,
            kept=self.restart_plan.kept,
            age=found.age if found else None,
            open=sorted(left, key=lambda one: (step_of(one) or 0, one)),
            away="" if found else record.complete,
        )

    def fenced(self, now, cleared):
        """Has each host of the attempt that is not heard ended its ranks?"""
        record, lease = self.record, self.restart_plan.lease
        for host in set(record.hosts) - set(cleared):
            if now - self.since < FENCE:
                return False
            lost = host in record.endings[-1].lost  # so it was silent for as long
            if not lost and now - max(self.heard[host], self.ended) < FENCE + lease:
                return False
        return True

    def for_checkpoint(self, now, there):
        """Choose the checkpoint to begin with. Return None while a lost host may have it, True to
        begin without one, or the end of the run."""
        if self.restart_plan.without == "begin":
            return True
        last, left = self.record.complete, max(HOLDER, self.restart_plan.lease) - now + self.since
        away = [name for name in self.names if name not in there]
        if away and left > 0:
            of = ", ".join(away)
            self.waits = "no host in reach has %s; %s may come back (%d s left)" % (last, of, left)
            return None
        return RunEnded("no host that is reached has %s (--without-checkpoint)" % last, False)

    def choose(self, there):
        first, least = self.record.attempts[0].hosts, self.restart_plan.least
        return restart_policy.choose_next_hosts(
            self.record.hosts, self.names, there, least, len(first)
        )

    # -- it begins --

    def in_begin(self, now, there, mine: "dict[str, HostReport]"):
        record = self.record
        for host in record.hosts:
            failed = mine[host].failed if host in mine else None
            if failed and failed.attempt == record.number:
                return self.in_vain(host, failed.why)
            if host not in there:
                return self.in_vain(host, "the connection ended")
        late = [host for host in record.hosts if self.port_of(mine, host) is None]
        if not late:
            return AttemptRuns(record.number)
        if now - self.since > BEGIN:
            return self.in_vain(late[0], "it was not ready after %d s" % BEGIN)
        return None

    def in_vain(self, host, why):
        end = restart_policy.make_ending(True, "%s: %s" % (host, why), lost=[host])
        return AttemptEnded(self.record.number, False, **end, lasted=0.0, complete="")

    def port_of(self, mine: "dict[str, HostReport]", host):
        ready = mine[host].ready if host in mine else None
        return ready.port if ready and ready.attempt == self.record.number else None

    # -- what the hosts are to do --

    def orders(self, mine: "dict[str, HostReport]"):
        """host -> KeeperOrder"""
        record = self.record
        number, clear = record.number, record.cleared()
        orders = {host: KeeperOrder(number, clear, record.end) for host in self.names}
        if record.phase() == "begin":
            for begin in self.begins(mine):
                orders[begin.asked.host].begin = begin
        elif record.phase() == "watch" and self.port_of(mine, record.hosts[0]) is not None:
            address = self.restart_plan.host_plans[record.hosts[0]].address
            for host in record.hosts:
                orders[host].hub = address, self.port_of(mine, record.hosts[0])
        return orders

    def begins(self, mine: "dict[str, HostReport]"):
        """The BeginPart of each host."""
        line, host_plans = self.record.attempts[-1], self.restart_plan.host_plans
        told = {host: said.cleared for host, said in mine.items() if said.cleared}
        lay = None
        if line.checkpoint:
            kept = {host: said.checkpoints for host, said in told.items()}
            lay = newest_complete_checkpoint(kept, line.checkpoint)
            if lay is None:
                return  # the hosts have not told this leader yet
            for *_, givers in lay.parts:
                givers[:] = [peer_url(host_plans[h].address, told[h].port) for h in givers]
        chosen = [host_plans[host] for host in line.hosts]
        laid = set()
        for order in attempt_orders.compose_orders(
            self.restart_plan.common, chosen, line.attempt, line.checkpoint
        ):
            work = host_plans[order.host].work
            yield BeginPart(order, None if work in laid else lay)
            laid.add(work)  # hosts that share the folder: the first of them

    def orders_of_returned(self, name):
        """A StartOrder for the keeper of a host that was away; None: it has no part in the run."""
        if name not in self.restart_plan.host_plans:
            return None
        votes = name in [place[0] for place in self.restart_plan.places]
        told = self.restart_plan if votes else RestartPlan.read(vars(self.restart_plan))
        asked = self.restart_plan.host_plans[name].asked
        return asked.replace(restart_plan=told, spare=True, returned=True)
