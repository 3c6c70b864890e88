"""Decides when a run is started again. No I/O, no clock: `now` is given.

One of the voters leads. Each host tells it how its part of the run is (`mine`, keeper.py). What the
leader wants, it puts into the record; what is in the record, it orders.
"""

from ipexctl.common.addresses import peer_url
from ipexctl.remote.restart import attempt_orders, restart_policy
from ipexctl.remote.shelf.checkpoint_rules import step_of

GATHER = 3.0  # seconds after the first report, for those of the other hosts
CLEAR = 25.0  # for the hosts to end what is left
AWAY = 60.0  # for hosts to come back, if there are too few
HOLDER = 300.0  # for a host that holds a checkpoint to come back, where no other does
FENCE = 7.0  # beyond the lease, until a host that is not heard has ended its ranks
BEGIN = 90.0  # for all hosts of an attempt to be ready
VOTERS_ONLY = ("common", "sheets")  # of what keepers get: run/watch/start_request.py


def read(mine):
    """What a host said of itself. Raises LookupError, TypeError, ValueError, AttributeError."""
    found = {"stop": str(mine.get("stop") or "")}  # type: dict
    over, cleared = mine.get("over"), mine.get("cleared")
    if over:
        found["over"] = {
            "attempt": int(over["attempt"]), "well": over["well"] is True,
            "finished": over["finished"] is True,
            "facts": [dict(fact) for fact in over["facts"]], "seconds": float(over["seconds"]),
            "ago": float(over["ago"]), "complete": str(over["complete"]),
        }  # fmt: skip
    if cleared:
        found["cleared"] = {
            "attempt": int(cleared["attempt"]), "port": int(cleared["port"]),
            "open": [str(name) for name in cleared["open"]],
            "checkpoints": [read_checkpoint(one) for one in cleared["checkpoints"]],
        }  # fmt: skip
    for kind, more, of in (("ready", "port", int), ("failed", "why", str)):
        if mine.get(kind):
            found[kind] = {"attempt": int(mine[kind]["attempt"]), more: of(mine[kind][more])}
    return found


def read_checkpoint(one):
    parts = {
        str(writer): {"sha": str(part["sha"]), "list": int(part["list"])}
        for writer, part in one["parts"].items()
    }
    attempt, number = one["order"]
    return {
        "name": str(one["name"]), "order": [int(attempt), int(number)], "age": float(one["age"]),
        "parts": parts, "held": [str(sha) for sha in one["held"]],
    }  # fmt: skip


class Leader:
    def __init__(self, night, name, record, now):
        self.night, self.name, self.record = night, name, record
        self.names = night["hosts"]
        self.heard = dict.fromkeys(self.names, now)  # when each was there last
        self.at = None  # the phase of the record that it has seen
        self.waits = ""  # for what, as ps shows
        self.ended = now  # when the last attempt had ended on a host
        self.watch(now, set())

    def watch(self, now, there):
        self.since = self.came = now
        self.known = set(there)  # hosts that were there at the last look
        self.first_report = None

    def tick(self, now, there, mine):
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
        stop = [said["stop"] for said in mine.values() if said.get("stop")]
        if stop and not self.record.stopped:
            return {"stop": stop[0]}
        return getattr(self, "in_%s" % at[0])(now, there, mine)

    # -- an attempt runs --

    def in_watch(self, now, there, mine):
        record, lease = self.record, self.night["lease"]
        told = {host: said["over"] for host, said in mine.items() if said.get("over")}
        told = {h: over for h, over in told.items() if over["attempt"] == record.number}
        reports = [told[host] for host in self.names if host in told]
        # what ended the attempt after its last rank had ended with 0 does not count
        finished = all(host in told and told[host]["finished"] for host in record.hosts)
        if finished or any(report["well"] for report in reports):
            return {"end": "done", "well": True}
        if not reports:  # all hosts of the attempt have gone
            left = max(self.heard[host] for host in record.hosts)
            return self.over({}, there, now) if now - left > lease + FENCE else None
        if self.first_report is None:
            self.first_report = now
        facts = [fact for report in reports for fact in report["facts"]]
        lost = {fact.get("host") for fact in facts if fact.get("event") == "lost"}
        # one that is not connected, and that no host lost, may be back at once
        awaited = (set(record.hosts) & there | set(record.hosts) - lost) - set(told)
        if not awaited or now - self.first_report > GATHER:
            return self.over(told, there, now)
        return None

    def over(self, told, there, now):
        reports = [told[host] for host in self.names if host in told]
        most = max([[]] + [report["facts"] for report in reports], key=len)
        lasted = max((report["seconds"] for report in reports), default=0.0)
        complete = next((one["complete"] for one in reports if one["complete"]), "")
        self.ended = now - max((report["ago"] for report in reports), default=0.0)
        # those who watched the run may have ended the rest of it before that was noted, a keeper
        # that was started again knows nothing of its part, and one may have ended its part alone
        silent = [h for h in self.record.hosts if h not in told]
        gone = [h for h in silent if h not in there] or min(silent, list(told), key=len)
        end = restart_policy.ending(most or [{"event": "lost", "host": h} for h in gone], lasted)
        away = [h for h in self.record.hosts if h not in there | set(told) | set(end["lost"])]
        if away:
            end["why"] += "; not reached: %s" % ", ".join(away)
        return dict(
            end, away=away, ended=self.record.number, ran=True, lasted=lasted, complete=complete
        )

    # -- it has ended --

    def in_clear(self, now, there, mine):
        record, last = self.record, self.record.endings[-1]
        if record.stopped:
            return {"end": "stopped by %s" % record.stopped, "well": False, "by_user": True}
        if not last["again"]:
            return {"end": last["why"], "well": False}
        cleared = {
            host: mine[host]["cleared"]
            for host in there
            if (mine.get(host, {}).get("cleared") or {}).get("attempt") == record.cleared()
        }
        done = there <= set(cleared) or now - self.came > CLEAR
        waited = now - self.since >= restart_policy.pause(record.endings)
        if not (done and waited and self.fenced(now, cleared)):
            return None
        usable = set(cleared)
        weak = record.weak()
        chosen = self.choose(usable - weak) or self.choose(usable)
        if not chosen and now - self.since < AWAY:
            self.waits = "%d hosts are too few" % len(usable)
            return None
        told = {host: said["checkpoints"] for host, said in cleared.items()}
        found = restart_policy.newest(told)
        if record.complete and not found:
            waited = self.for_checkpoint(now, there)
            if waited is not True:
                return waited
        name = found["name"] if found else ""
        errors = [(one["error"], one["checkpoint"]) for one in record.attempts[1:]]
        errors.append((last["error"], name))
        why = restart_policy.refusal(last, errors[-2:], record.used(), self.night["restarts"])
        if len(record.in_vain()) > len(self.names):
            why = "%s; no attempt began" % last["why"]
        if why or not chosen:
            few = "%s; %d hosts are too few" % (last["why"], len(usable))
            return {"end": why or few, "well": False}
        left = {one for said in cleared.values() for one in said["open"]} - {name}
        return {
            "attempt": record.number + 1, "hosts": chosen, "why": last["why"],
            "error": last["error"], "checkpoint": name, "lasted": last["lasted"],
            "kept": self.night["kept"], "age": found["age"] if found else None,
            "open": sorted(left, key=lambda one: (step_of(one) or 0, one)),
            "away": "" if found else record.complete,
        }  # fmt: skip

    def fenced(self, now, cleared):
        """Has each host of the attempt that is not heard ended its ranks?"""
        record, lease = self.record, self.night["lease"]
        for host in set(record.hosts) - set(cleared):
            if now - self.since < FENCE:
                return False
            lost = host in record.endings[-1]["lost"]  # so it was silent for as long
            if not lost and now - max(self.heard[host], self.ended) < FENCE + lease:
                return False
        return True

    def for_checkpoint(self, now, there):
        """None: a host that is away may have it; True: it begins without; or the end."""
        if self.night["without"] == "begin":
            return True
        last, left = self.record.complete, max(HOLDER, self.night["lease"]) - now + self.since
        away = [name for name in self.names if name not in there]
        if away and left > 0:
            of = ", ".join(away)
            self.waits = "no host in reach has %s; %s may come back (%d s left)" % (last, of, left)
            return None
        return {
            "end": "no host that is reached has %s (--without-checkpoint)" % last,
            "well": False,
        }

    def choose(self, there):
        first, least = self.record.attempts[0]["hosts"], self.night["least"]
        return restart_policy.chosen(self.record.hosts, self.names, there, least, len(first))

    # -- it begins --

    def in_begin(self, now, there, mine):
        record = self.record
        for host in record.hosts:
            failed = mine.get(host, {}).get("failed") or {}
            if failed.get("attempt") == record.number:
                return self.in_vain(host, str(failed["why"]))
            if host not in there:
                return self.in_vain(host, "the connection ended")
        late = [host for host in record.hosts if self.port_of(mine, host) is None]
        if not late:
            return {"running": record.number}
        if now - self.since > BEGIN:
            return self.in_vain(late[0], "it was not ready after %d s" % BEGIN)
        return None

    def in_vain(self, host, why):
        end = restart_policy.ending([{"event": "lost", "host": host, "unready": why}], 0.0)
        return dict(end, ended=self.record.number, ran=False, lasted=0.0, complete="")

    def port_of(self, mine, host):
        ready = mine.get(host, {}).get("ready") or {}
        return ready["port"] if ready.get("attempt") == self.record.number else None

    # -- what the hosts are to do --

    def orders(self, mine):
        """host -> what is to be, whatever was before"""
        record = self.record
        same = {"number": record.number, "clear": record.cleared()}
        if record.end is not None:
            same["end"] = record.end
        orders = {host: dict(same) for host in self.names}
        if record.phase() == "begin":
            for host, begin in self.begins(mine):
                orders[host]["begin"] = begin
        elif record.phase() == "watch" and self.port_of(mine, record.hosts[0]) is not None:
            address = self.night["sheets"][record.hosts[0]]["address"]
            for host in record.hosts:
                orders[host]["hub"] = [address, self.port_of(mine, record.hosts[0])]
        return orders

    def begins(self, mine):
        """(host, {asked, lay})"""
        line, sheets = self.record.attempts[-1], self.night["sheets"]
        name = line["checkpoint"]
        told = {host: said["cleared"] for host, said in mine.items() if said.get("cleared")}
        found = name and restart_policy.newest(
            {host: said["checkpoints"] for host, said in told.items()}, name
        )
        if name and not found:
            return  # the hosts have not told this leader yet
        lay = found and dict(
            found, parts=[part[:3] + [self.urls(told, part[3])] for part in found["parts"]]
        )
        chosen = [sheets[host] for host in line["hosts"]]
        laid = set()
        for host, asked in attempt_orders.compose(
            self.night["common"], chosen, line["attempt"], name
        ):
            own = None if sheets[host]["work"] in laid else lay or None
            laid.add(sheets[host]["work"])  # hosts that share the folder: the first of them
            yield host, {"asked": asked, "lay": own}

    def urls(self, told, hosts):
        """Where they give files."""
        return [peer_url(self.night["sheets"][h]["address"], told[h]["port"]) for h in hosts]

    def orders_of_returned(self, name):
        """For the keeper of a host that was away; {} for one that knows no such run."""
        if name not in self.night["sheets"]:
            return {}
        votes = name in [place[0] for place in self.night["places"]]
        night = {k: v for k, v in self.night.items() if votes or k not in VOTERS_ONLY}
        return dict(self.night["sheets"][name]["asked"], night=night, spare=True, returned=True)
