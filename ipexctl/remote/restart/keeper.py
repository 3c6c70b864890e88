"""The keeper of a run with --restarts on one host: it lives from the first attempt to the last.

It watches this host's part of each attempt by its journal, reports its end to the keeper that
leads (leader.py), and starts the part of the next one. `RUN/attempts` has a line for each attempt.
Without the leader it follows the next candidate, and ends if none has more than half of the hosts.
"""

import os
import queue
import time

from ipexctl.remote import root_folder
from ipexctl.remote.connection import hub_link
from ipexctl.remote.failure import Failure, bug
from ipexctl.remote.hub import judge
from ipexctl.remote.own_process import no_core_dump, start_thread
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.restart import checkpoint_transfer, guardian_starter, leader
from ipexctl.remote.restart.attempt_orders import run_id_of
from ipexctl.remote.run import control
from ipexctl.remote.run_files import journal, run_folders

NAME = "ipexctl-keeper"
LOOK = 0.25
GONE = 2.0  # seconds until a leader whose process has ended is given up
BEGINS = 60.0  # seconds for a supervisor to appear
FACTS, TAIL = 8, 2000  # that are reported, and characters of what a rank printed
LAST_WORDS = 2.0
SMALLER = "not more than half of the hosts are reached from %s"
NO_PROCESS = -1  # whose descendants are to be killed: those that carry the run's id are enough


def begin(asked):
    """Fork the keeper; called where there are no threads yet. Its parent is init."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        run(asked)
    finally:
        os._exit(0)


def run(asked):
    if asked["secret"]:
        no_core_dump()
    rank_wrapper.set_name(NAME)
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2:
                os.close(int(name))
        except OSError:
            pass  # the listing's own
    run_folders.held.clear()
    keeper = Keeper(asked, guardian_starter.Starter())  # it forks before there are threads
    try:
        keeper.keep()
    except Exception:
        what = bug()["what"]
        keeper.note({"broken": what})  # another one leads then
        keeper.end_part(what)


class Keeper:
    def __init__(self, asked, starter):
        self.night, self.name, self.keys = asked["night"], asked["host"], asked["keys"]
        self.asked, self.starter = asked, starter
        top = root_folder.checked(asked["root"])
        self.base = run_folders.run_id(self.night)  # of the first attempt
        self.runs = os.path.join(top, "runs")
        self.folder = root_folder.subfolder(top, "runs", self.base)
        run_folders.hold(self.folder)
        self.shelves = checkpoint_transfer.Shelves(self.runs, self.keys)
        self.places = self.night["places"]  # of the candidates: [name, address, port]
        self.term = 0  # the candidates lead in turn: in this term places[term % len(places)] does
        self.unmet = 0  # candidates in a row that were not reached
        self.alone = 0  # candidates in a row that had not more than half of the hosts
        self.led = False  # the candidate that it follows has said that it leads
        self.inbox = queue.Queue()  # type: queue.Queue
        self.hub = self.spoke = self.leader = None
        self.born = self.followed = time.monotonic()
        first = {"attempt": 1, "hosts": self.night["first"]}
        self.story = asked.get("story") or [first]
        self.part = None if asked["spare"] else Part(self, asked, 1)
        self.early = []  # type: list[tuple[str, dict]]  # said to a candidate that does not lead yet
        self.clearing = None  # the attempt that has to end here
        self.over = False

    def keep(self):
        self.note_attempt(self.story[-1])
        control.serve(self.base, control.keeper_of(self.name), self.answer, lambda link: None)
        names = [place[0] for place in self.places]
        others = [name for name in self.night["hosts"] if name != self.name]
        if self.name in names and others:
            place = self.places[names.index(self.name)]
            self.hub = hub_link.Hub(others, self.keys, self.take, renews=True)
            self.hub.listen(place[1], (place[2], place[2]))
        self.follow(self.asked.get("term", 0))
        while not self.over:
            self.turn()
        for link in (self.hub, self.spoke):
            if link is not None:
                link.flush(LAST_WORDS)
                link.close()

    def take(self, name, message, ordered=False):
        """`ordered`: of the candidate that it follows."""
        self.inbox.put((name, message if isinstance(message, dict) else {}, ordered))

    def answer(self, message):
        """A question or an order from this host (control.py)."""
        if "stop" in message:
            self.report({"stop": str(message["stop"])})
        if "returned" in message:
            return {"alive": True, "orders": self.orders_of_returned(str(message["returned"]))}
        if "away" in message:
            return {"alive": True, "away": self.away()}
        return {"alive": True}

    def away(self):
        """Hosts that are not connected; None where another one leads."""
        if self.leader is None or self.hub is None:
            return None
        there = self.hub.connected() | {self.name}
        return [name for name in self.night["hosts"] if name not in there]

    def orders_of_returned(self, name):
        """{} where another host leads, or that one is here already."""
        if self.leader is None or self.hub is None or name in self.hub.connected():
            return {}
        found = self.leader.orders_of_returned(name)
        return found and dict(found, term=self.term, story=list(self.story), keys=self.keys)

    def leads(self):
        """The candidate that it follows."""
        return self.places[self.term % len(self.places)]

    def follow(self, term):
        """A candidate leads; if it is this one, it leads itself."""
        before, now = self.followed, time.monotonic()
        if now - before > 2 * self.night["lease"] + leader.MEET:
            self.alone = 0  # it has followed one that led
        self.term, self.followed, self.led = term, now, False
        if self.spoke is not None:
            self.spoke.close()
            self.spoke = None
        if self.unmet == len(self.places):
            self.give_up()
        if self.over:
            return
        self.unmet += 1
        name, address, port = self.leads()
        if name == self.name:
            meet = max(leader.NEXT, leader.MEET - (self.followed - self.born))
            self.leader = leader.Leader(self.night, name, self.story, self.followed, meet)
            early, self.early = self.early, []
            for known, message in early:
                self.hear(known, message)
        else:
            hears = self.heard_from(name)
            self.spoke = hub_link.Spoke(self.name, name, self.keys, hears)
            self.spoke.connect(address, port)
            self.report({"story": self.story})
        if self.part is not None:
            self.part.reported = False

    def heard_from(self, name):
        return lambda message: self.take(name, message, ordered=True)

    def report(self, message):
        """To the leader."""
        if self.leader is not None:
            self.take(self.name, message)
        elif self.spoke is not None:
            self.spoke.send(message)

    def turn(self):
        try:
            said = self.inbox.get(timeout=LOOK)
        except queue.Empty:
            pass
        else:
            try:
                self.hear(*said)
            except (LookupError, TypeError, ValueError, Failure) as e:
                self.note({"unread": "%s sent %.200r (%r)" % (said[0], said[1], e)})
        now = time.monotonic()
        if self.leader is not None:
            self.lead(self.leader, now)
        elif self.spoke is not None:
            self.look_at_leader(self.spoke, now)
        self.look_at_part(now)
        if self.starter.has_ended():  # the ranks go on; without this keeper the host is lost
            self.note({"broken": "the process that starts guardians has ended"})
            self.over = True

    def lead(self, leads, now):
        leads.tick(now, self.hub.connected() if self.hub else set())
        orders, leads.orders = leads.orders, []
        for name, order in orders:
            if name == self.name:
                self.obey(order)
            elif self.hub is not None:
                self.hub.send(name, order)
        if leads.resigned:
            self.leader = None
            self.without_majority()

    def without_majority(self):
        """In the smaller part of a divided network: what runs ends, and the larger part is looked
        for, which may be reached again."""
        self.alone += 1
        self.end_part(SMALLER % self.name)
        if self.alone == len(self.places):
            self.give_up()
        else:
            self.follow(self.term + 1)

    def look_at_leader(self, spoke, now):
        met = spoke.met() and self.led  # it may be reached, and follow another one itself
        silence = now - spoke.heard() if met else now - self.followed
        limit = leader.NEXT if self.term else leader.MEET
        limit = self.night["lease"] if met else limit
        self.unmet = 0 if spoke.met() else self.unmet
        if silence > limit or (met and spoke.absent() > GONE):
            self.follow(self.term + 1)

    def hear(self, name, message, ordered=False):
        if "part" in message and name == self.name:
            attempt, why = message["part"], message.get("failed")
            failed = {"failed": attempt, "why": why}
            self.report(failed if why else {"ready": attempt, "port": message["port"]})
        elif ordered:
            if name == self.leads()[0]:
                self.led = message.get("leads", True)
                self.obey(message)
        elif self.leader is not None and "story" in message:
            self.leader.follows(name)
            self.catch_up(self.leader, message["story"])
        elif self.leader is not None:
            self.leader.take(name, message, time.monotonic())
        else:  # it follows this candidate already
            self.early.append((name, message))

    def catch_up(self, leads, story):
        """With what another host knows, which the leader before may have told only to that one."""
        if story[-1]["attempt"] > self.story[-1]["attempt"]:
            leads.catch_up(story, time.monotonic())
            self.story = story
            self.note_attempt(story[-1])

    def obey(self, order):
        if "story" in order:
            self.story.append(order["story"])
            self.note_attempt(order["story"])
        elif "clear" in order:
            self.clearing = order["clear"]
            self.end_part("the next attempt")
        elif "start" in order:
            self.start(order["asked"], order["start"], order["lay"])
        elif "hub" in order:
            if self.part is not None:
                self.part.write({"hub": order["hub"]})
        elif order.get("leads") is False:
            self.without_majority()
        elif "done" in order:
            self.note({"end": order["done"]["why"], "well": order["done"]["well"]})
            self.end_part("the run has ended")
            self.over = True

    def attempts(self):
        """Their ids, derived: a path below the root is made of each."""
        return {run_id_of(self.base, one["attempt"]): one["attempt"] for one in self.story}

    def start(self, asked, attempt, lay):
        run_id = run_id_of(self.base, attempt)
        asked = dict(asked, keys=self.keys, root=self.asked["root"], run_id=run_id)
        run_folders.hold(root_folder.subfolder(os.path.dirname(self.runs), "runs", run_id))
        self.part = Part(self, asked, attempt)
        start_thread(self.begin_part, self.part, lay, self.attempts())

    def begin_part(self, part, lay, attempts):
        """First the checkpoint, which may take a while."""
        try:
            if lay:
                self.shelves.lay_out(part.asked, lay, attempts)
                self.shelves.forget(attempts, lay["order"][0])
        except (Failure, OSError) as e:
            what = e.what if isinstance(e, Failure) else str(e)
            self.take(self.name, {"part": part.attempt, "failed": what})
            return
        part.begin(self.starter)

    def look_at_part(self, now):
        part = self.part
        if part is not None:
            part.look(now)
        if part is not None and part.ended and not part.reported:
            part.reported = True
            self.report(part.end(now))
        if self.clearing is not None and (part.ended if part else not self.is_left()):
            self.report(dict(self.shelves.report(self.attempts()), cleared=self.clearing))
            self.clearing = None

    def is_left(self):
        """Whether the attempt goes on here: a keeper before this one may have started it."""
        return control.is_alive(self.last_run_id(), self.name)

    def last_run_id(self):
        return run_id_of(self.base, self.story[-1]["attempt"])

    def end_part(self, why):
        if self.part is None or not self.part.ended:
            run_id = self.last_run_id() if self.part is None else self.part.run_id
            control.ask(run_id, self.name, {"end": why})

    def give_up(self):
        why = SMALLER % self.name if self.alone else "no host that could lead the run is reached"
        self.note({"end": why, "well": False})
        self.end_part(why)
        self.over = True

    def note_attempt(self, line):
        self.note(dict(line, run_id=run_id_of(self.base, line["attempt"])))

    def note(self, line):
        """To RUN/attempts."""
        try:
            line = dict(line, at=round(time.time(), 1))
            journal.write_lines(attempts_of(self.folder, self.name), os.O_APPEND, [line])
        except OSError:
            pass  # a full disk


def attempts_of(folder, host):
    return os.path.join(folder, "attempts." + os.path.basename(host))


class Part:
    """This host's part of one attempt."""

    def __init__(self, keeper, asked, attempt):
        self.keeper, self.asked, self.attempt = keeper, asked, attempt
        self.run_id = asked["run_id"]
        folder = os.path.join(keeper.runs, self.run_id)
        self.journal = journal.Reader(journal.path_of(folder, asked["host"]))
        self.began = time.monotonic()
        self.facts = []  # type: list[dict]
        self.well = False
        self.seconds = 0.0
        self.complete = ""  # the last checkpoint that was complete
        self.seen = False  # its supervisor was there
        self.ended = self.reported = False
        self.ended_at = 0.0
        self.link = None
        self.next_look = 0.0

    def begin(self, starter):
        self.link = starter.begin()
        start_thread(self.listen, self.link)
        self.write(self.asked)

    def write(self, header):
        try:
            if self.link is not None:
                self.link.write(header)
        except OSError:
            pass  # it has ended: `look` sees it

    def listen(self, link):
        """What the guardian and the supervisor say, of an attempt that was started here."""
        keeper = self.keeper
        while True:
            frame = link.read()
            if frame is None:
                return
            header = frame[0]
            if header.get("event") == "ready":
                keeper.take(keeper.name, {"part": self.attempt, "port": header["port"]})
            elif "error" in header:
                what = str(header["error"].get("what"))
                keeper.take(keeper.name, {"part": self.attempt, "failed": what})

    def look(self, now):
        self.read()
        if not self.ended:
            self.ended_at = now
        if now < self.next_look or self.ended:
            return
        self.next_look = now + 1.0
        host = self.asked["host"]
        alive = control.is_alive(self.run_id, host) or control.is_alive(
            self.run_id, control.guardian_of(host)
        )
        self.seen = self.seen or alive
        if not alive and (self.seen or now - self.began > BEGINS):
            self.read()  # they may have ended as they should since the last look
            if not self.ended:
                self.vanished()

    def read(self):
        for record, _ in self.journal.new():
            self.seconds = record.get("at", self.seconds)
            fact = record.get("fact")
            if isinstance(fact, dict) and fact.get("event") == "over":
                self.well = fact.get("well") is True
            elif isinstance(fact, dict) and fact.get("event") == "checkpoint":
                self.complete = "" if fact.get("withdrawn") else str(fact.get("name"))
            elif isinstance(fact, dict) and judge.is_decisive(fact) and len(self.facts) < FACTS:
                self.facts.append(dict(fact, tail=str(fact.get("tail", ""))[-TAIL:]))
            if "over" in record:
                self.ended = True

    def vanished(self):
        """Its supervisor and guardian are gone: neither could note that, or end the ranks."""
        self.ended = True
        rank_wrapper.kill_all(self.run_id, NO_PROCESS)
        if not self.facts and self.seen:
            why = "its supervisor and its guardian have disappeared"
            self.facts.append({"event": "lost", "host": self.asked["host"], "why": why})

    def end(self, now):
        return {
            "over": self.attempt,
            "well": self.well,
            "facts": self.facts,
            "seconds": self.seconds,
            "ago": now - self.ended_at,
            "complete": self.complete,
        }
