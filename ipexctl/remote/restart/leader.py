"""Decides when a run is started again. No I/O, no clock: `now` is given.

One keeper leads: the first of the candidates that sees more than half of all hosts. The others
report to it how their part of an attempt ended. `orders` are (host, message), to be sent.
"""

from ipexctl.remote.connection.peer_url import peer_url
from ipexctl.remote.restart import attempt_orders, restart_policy

GATHER = 3.0  # seconds after the first report, for those of the other hosts
CLEAR = 25.0  # for the hosts to end what is left
AWAY = 60.0  # for hosts to come back, if there are too few
FENCE = 7.0  # beyond the lease, until a host that is not heard has ended its ranks
BEGIN = 90.0  # for all hosts of an attempt to be ready
ALONE = 5.0  # beyond the lease, without more than half of the hosts
LEADERS_ONLY = ("common", "sheets")  # of what keepers get: run/restart/host_sheets.py
MEET = 30.0  # seconds for the first connection to the first leader
NEXT = 10.0  # and to one that follows it, whose keeper is there for long
FROZEN, AWAKE = 2.0, 1.0  # seconds without a tick; then, until it is known which hosts have gone


class Leader:
    def __init__(self, night, name, story, now, meet=MEET):
        """`story`: what is known of the attempts so far, the last one last. `meet`: seconds for
        keepers that look for the leader before this one."""
        self.night, self.name = night, name
        self.names = night["hosts"]
        self.orders = []  # type: list[tuple[str, dict]]
        self.over = ""  # why there is no further attempt
        self.well = False
        self.stopped = ""  # the user who stopped it; what runs is ended by its own hub
        self.met_by = now + meet
        self.majority_at, self.majority = self.met_by - night["lease"], False
        self.resigned = False
        self.ticked = self.asleep_until = now
        self.most = len(story[0]["hosts"])
        self.led = set()  # hosts that know that it leads
        self.weak = set()  # hosts that could not begin an attempt, since the last that began
        self.catch_up(story, now)

    def catch_up(self, story, now):
        """Of the attempts. Another host may know of one that the leader before began."""
        lasted = [float(one["lasted"]) for one in story[1:]]
        self.attempt, self.hosts = int(story[-1]["attempt"]), list(story[-1]["hosts"])
        self.errors = [(one.get("error", ""), one.get("checkpoint", "")) for one in story[1:]]
        self.lasted = lasted
        used = [one["checkpoint"] for one in story[1:] if one.get("checkpoint")]
        self.complete = used[-1] if used else ""  # the last checkpoint that is known to be complete
        self.watch(now)

    def follows(self, name):
        """Since now: a new process, perhaps, whose predecessor's connection has not ended."""
        self.led.discard(name)
        self.known.discard(name)

    def watch(self, now):
        self.state, self.since = "watch", now
        self.reports, self.cleared, self.ready = {}, {}, {}
        self.known, self.came = set(), now  # hosts that were there at the last look
        self.ended = now  # when the attempt had ended on one host
        self.end, self.next, self.pause = restart_policy.Ending(False, ""), [], 0.0

    def tell(self, message, names=None):
        self.orders += [(name, message) for name in (self.names if names is None else names)]

    # -- what comes --

    def take(self, name, message, now):
        if "stop" in message:
            self.stopped = "stopped by %s" % message["stop"]
        elif message.get("over") == self.attempt and self.state in ("watch", "gather"):
            self.reports.setdefault(name, message)
        elif message.get("cleared") == self.attempt and self.state == "clear":
            self.cleared[name] = dict(message, at=now)
        elif message.get("ready") == self.attempt + 1 and self.state == "begin":
            self.ready[name] = message
            if len(self.ready) == len(self.next):
                self.tell({"hub": self.port()}, self.next)
                self.weak.clear()
                self.begun(now)
        elif message.get("failed") == self.attempt + 1 and self.state == "begin":
            self.lost_again(name, str(message.get("why")), now)

    def port(self):
        first = self.next[0]
        address = self.night["sheets"][first]["address"]
        return [address, self.ready[first]["port"]]

    def begun(self, now):
        self.attempt, self.hosts = self.attempt + 1, self.next
        self.watch(now)

    def lost_again(self, host, why, now):
        """An attempt that did not become one counts like any other."""
        self.weak.add(host)
        self.begun(now)
        self.reports[self.name] = {
            "facts": [{"event": "lost", "host": host, "unready": why}],
            "seconds": 0.0,
            "ago": 0.0,
        }

    def tick(self, now, there):
        """`there`: hosts with a connection."""
        if now - self.ticked > FROZEN:
            self.asleep_until = now + AWAKE
        self.ticked = now
        if now < self.asleep_until:
            return
        there = there | {self.name}
        self.majority = 2 * len(there) > len(self.names)
        if self.majority:
            self.majority_at = now
        elif now - self.majority_at > self.night["lease"] + ALONE:
            self.resigned = True
            self.tell({"leads": False}, sorted(self.led - {self.name}))
            return
        if self.majority or now < self.met_by:
            self.tell({"leads": True}, [name for name in self.names if name in there - self.led])
            self.led = set(there)
        if self.stopped and self.state in ("clear", "begin"):
            self.finish(False, self.stopped)
        if self.over:
            return
        getattr(self, "in_%s" % self.state)(now, there)

    # -- what follows --

    def in_watch(self, now, there):
        if self.reports:
            self.state, self.since = "gather", now

    def in_gather(self, now, there):
        if any(report.get("well") for report in self.reports.values()):
            self.finish(True, "done")
        elif set(self.hosts) & there <= set(self.reports) or now - self.since > GATHER:
            self.decide(now, there)

    def decide(self, now, there):
        reports = [self.reports[name] for name in self.names if name in self.reports]
        most = max(reports, key=lambda report: len(report["facts"]))
        lasted = max(report["seconds"] for report in reports)
        complete = [report["complete"] for report in reports if report.get("complete")]
        self.complete = complete[0] if complete else self.complete
        self.ended = now - max(report["ago"] for report in reports)
        self.lasted.append(lasted)
        # those who watched the run may have ended the rest of it before that was noted
        lost = [{"event": "lost", "host": name} for name in self.hosts if name not in there]
        self.end = restart_policy.ending(most["facts"] or lost, lasted)
        if self.stopped or not self.end.again:
            self.finish(False, self.stopped or self.end.why)
            return
        self.pause = restart_policy.pause(self.lasted)
        self.state, self.since = "clear", now
        self.known, self.came = set(there), now
        self.tell({"clear": self.attempt})

    def in_clear(self, now, there):
        silent = set(self.hosts) - set(self.cleared)
        fenced = now - self.since >= FENCE if silent else True
        if not silent <= self.end.lost:  # those that the hub has lost were silent for so long
            fenced = now - self.ended >= FENCE + self.night["lease"]
        if not there <= self.known:  # what was told to a process before does not reach a new one
            self.tell({"clear": self.attempt}, sorted(there - self.known))
            self.came = now
        self.known = set(there)
        done = there <= set(self.cleared) or now - self.came > CLEAR
        if not (self.majority and done and fenced and now - self.since >= self.pause):
            return
        usable = set(self.cleared) & there
        chosen = self.choose(usable - self.weak) or self.choose(usable)
        if not chosen and now - self.since < AWAY:
            return
        told = {
            name: [dict(c, age=c["age"] + now - one["at"]) for c in one.get("checkpoints", [])]
            for name, one in self.cleared.items()
        }
        found = restart_policy.newest(told)
        if self.complete and not found and now - self.since < AWAY:
            return  # for a host that has it
        self.errors.append((self.end.error, found["name"] if found else ""))
        made, limit = self.attempt - 1, self.night["restarts"]
        why = restart_policy.refusal(self.end, self.errors[-2:], made, limit)
        if self.end.lost:  # also hosts that those of them that noted it did not miss
            lost = [name for name in self.hosts if name in self.end.lost or name not in there]
            if set(lost) != self.end.lost:
                self.end.why = "%s: lost" % ", ".join(lost)
        if why or not chosen:
            self.finish(False, why or "%s; %d hosts are too few" % (self.end.why, len(usable)))
            return
        self.start(chosen, found, now)

    def choose(self, there):
        least = self.night["least"]
        return restart_policy.chosen(self.hosts, self.names, there, least, self.most)

    def start(self, chosen, found, now):
        self.state, self.since, self.next = "begin", now, chosen
        sheets = [self.night["sheets"][name] for name in chosen]
        name = found["name"] if found else ""
        left = sorted({one for said in self.cleared.values() for one in said["open"]} - {name})
        error = self.errors[-1][0]
        self.tell({
            "story": {
                "attempt": self.attempt + 1, "hosts": chosen, "why": self.end.why, "error": error,
                "checkpoint": name, "lasted": self.lasted[-1], "kept": self.night["kept"],
                "age": found["age"] if found else None, "open": left,
                "away": "" if found else self.complete,
            }
        })  # fmt: skip
        lay = found and dict(
            found, parts=[part[:3] + [self.urls(part[3])] for part in found["parts"]]
        )
        made = attempt_orders.compose(self.night["common"], sheets, self.attempt + 1, name)
        laid = set()
        for host, asked in made:
            work = self.night["sheets"][host]["work"]
            own = None if work in laid else lay  # hosts that share the folder: the first of them
            laid.add(work)
            self.tell({"start": self.attempt + 1, "asked": asked, "lay": own}, [host])

    def urls(self, hosts):
        """Where they give files."""
        sheets, said = self.night["sheets"], self.cleared
        return [peer_url(sheets[host]["address"], said[host]["port"]) for host in hosts]

    def orders_of_returned(self, name):
        """For the keeper of a host that was away; {} for one that knows no such run."""
        if name not in self.night["sheets"]:
            return {}
        leads = name in [place[0] for place in self.night["places"]]
        night = {k: v for k, v in self.night.items() if leads or k not in LEADERS_ONLY}
        return dict(self.night["sheets"][name]["asked"], night=night, spare=True)

    def in_begin(self, now, there):
        gone = [name for name in self.next if name not in there]
        if gone:
            self.lost_again(gone[0], "the connection ended", now)
        elif now - self.since > BEGIN:
            late = [name for name in self.next if name not in self.ready]
            self.lost_again(late[0], "it was not ready after %d s" % BEGIN, now)

    def finish(self, well, why, names=None):
        self.over, self.well = why, well
        self.tell({"done": {"why": why, "well": well}}, names)
