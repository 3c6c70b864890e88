"""Decide what a run does next, from the reports of its hosts. No I/O, no clock: `now` is given.

`orders` go to hosts; `facts` are what happened, in order, for the journals and for commands that
watch the run. The caller empties both. `over`: why the run has to be stopped.
"""

from ipexctl.common import hub_orders, run_events
from ipexctl.common.run_events import Event, Fact, is_decisive
from ipexctl.common.run_orders import HubOrder
from ipexctl.remote.hub import host_paths, mpi_launch, stall

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable

FAIL_GRACE = 3.0  # seconds after the first failure for the other ranks' last output
LOST_GRACE = 1.0
MPIRUN_GRACE = 2.0  # seconds for the ranks to end after mpirun
DAEMON_GRACE = 3.0
END_WAIT = 10.0  # for mpirun, when all its ranks have ended
TAIL, SHORT_TAIL = 8192, 512  # characters of a rank's output that every host keeps
LONG_TAILS = 16  # number of failed ranks whose output is kept at length
ENDED = "ended"  # why a run is stopped when nothing of it is left


class Judge:
    def __init__(self, run: HubOrder, now: float) -> None:
        self.run = run
        self.hosts = [row.host for row in run.hosts]
        self.first = self.hosts[0]
        self.ranks = {row.host: set(row.ranks) for row in run.hosts}
        self.world = sum(len(ranks) for ranks in self.ranks.values())
        self.began = now
        self.orders: "list[tuple[str, hub_orders.HostOrder]]" = []
        self.facts: "list[Fact]" = []
        self.over = ""
        self.deadline = None  # type: float | None  # when the remaining processes are killed
        self.begun = False  # all hosts were ready, and the ranks are started
        self.ready = set()  # type: set[str]  # hosts that can start the run's programs
        self.started = set()  # type: set[int]
        self.ended = {}  # type: dict[int, bool]  # rank -> whether it succeeded
        self.vanished = False  # a wrapper did, perhaps as mpirun was killed: a report will follow
        self.decided = False  # a fact has ended the run: a failure, or a request
        self.asked = False  # the ranks were told to end
        self.lost = set()  # type: set[str]
        self.paths = host_paths.HostPaths([(row.host, row.address) for row in run.hosts])
        self.stall = stall.StallWatch(run.stall, set(self.hosts), now)
        self.stop_at = None  # type: float | None  # --stall-action stop
        # (why, seconds) of a signal that waits for a look
        self.last_look = None  # type: tuple[str, float] | None
        self.code = None  # type: int | None  # exit code of mpirun, once it has ended
        self.gone = set()  # type: set[int | None]  # programs whose end is known
        self.spawned = {}  # type: dict[int, str]  # key -> host of that daemon

    # -- what comes --

    def take(self, host: str, event: Event, now: float) -> None:
        if self.over or host in self.lost:
            return
        try:
            self.HANDLERS[type(event)](self, host, event, now)
        except Exception:  # the host has a bug
            self.record_invalid_message(host, now)

    def record_invalid_message(self, host: str, now: float) -> None:
        self.record_lost_host(host, "the host sent an invalid message", now)

    def tick(self, now: float) -> None:
        """Do what is due: --timeout, stalls, cut connections, and the deadline for the end."""
        limit = self.run.timeout
        if limit and now - self.began > limit and not self.decided and not self.over:
            self.fact(run_events.TimedOut(limit))
            self.ask_ranks("--timeout", self.run.grace, now)
        if self.over:
            return
        self.look_for_stall(now)
        for text, cut in self.paths.news(now):
            self.fact(run_events.Noted(text, cut))
        is_done = self.code is not None or not (all(self.ended.values()) or self.vanished)
        is_late = self.deadline is not None and now >= self.deadline
        if is_late and not (self.decided or self.all_ended()):  # mpirun gave up without a reason
            program = "a process of MPI on %s" if self.run.mpi else "what started %s's ranks"
            self.note_program(program % self.first, self.first, None, True, "")
        if is_late or (is_done and self.all_ended()):
            self.over = ENDED

    def all_ended(self) -> bool:
        return len(self.ended) == self.world

    def is_success(self) -> bool:
        return self.all_ended() and all(self.ended.values())

    def has_failed(self) -> bool:
        """Return whether a rank has failed, or a host was lost: what it wrote may be cut."""
        return bool(self.lost) or not all(self.ended.values())

    def ask_to_end(self, by: str, seconds: float, now: float) -> None:
        """Handle Ctrl-C or `ipexctl stop`. A second request ends the run at once."""
        if self.over:
            return
        if self.asked:
            self.deadline = now
            return
        self.fact(run_events.EndAsked(by, seconds))
        self.ask_ranks(by, seconds, now)

    def record_lost_host(self, host: str, why: str, now: float) -> None:
        if host in self.lost or self.over:
            return
        self.lost.add(host)
        self.paths.forget(host)
        self.fact(run_events.HostLost(why), host)
        self.set_deadline(now + LOST_GRACE)

    def broken(self, host: str, what: str) -> None:
        """Stop the run because a host could not do its part."""
        if not self.over:
            self.lost.add(host)
            self.fact(run_events.Broken(what), host)
            self.over = what

    def abandoned(self, why: str) -> None:
        """Stop the run because the command that it depends on has ended."""
        if not self.over:
            self.fact(run_events.Abandoned(why), self.first)
            self.over = why

    # -- events of hosts --

    def on_ready(self, host: str, event: run_events.Ready, now: float) -> None:
        if host not in self.ready:
            self.ready.add(host)
            if len(self.ready) == len(self.hosts) and not self.decided:
                self.start()

    def start(self) -> None:
        """Start the ranks. From here on, the run does not need the command that started it."""
        self.begun = True
        self.fact(run_events.Begun(self.run.shown))
        if self.run.mpirun:
            self.order(self.first, hub_orders.Spawn("mpirun", self.run.mpirun))
            return
        self.code = 0
        for key, host in enumerate(self.run.hosts, 1):
            self.spawned[key] = host.host
            self.order(host.host, hub_orders.Spawn("daemon%d" % key, host.starter))

    def on_launch(self, host: str, event: run_events.Launch, now: float) -> None:
        """Pass on a daemon that mpirun requests: only those of the plan, each on its own host."""
        key = event.key
        if self.decided:
            self.order(host, hub_orders.LaunchRefused(key, "the run is ending"))
            return
        try:
            target, argv = mpi_launch.read_launch(self.run, event.argv)
        except mpi_launch.NotOfThisRun as e:
            self.fact(run_events.Noted(str(e)))
            self.order(host, hub_orders.LaunchRefused(key, str(e)))
            return
        target_host = target.host
        self.spawned[key] = target_host
        self.order(target_host, hub_orders.Spawn("daemon%d" % key, argv))

    def on_unlaunch(self, host: str, event: run_events.Unlaunch, now: float) -> None:
        """End a daemon, as mpirun has ended the program with which it requested it."""
        if event.key in self.spawned:
            self.order(self.spawned[event.key], hub_orders.Kill("daemon%d" % event.key))

    def on_exited(self, host: str, event: run_events.Exited, now: float) -> None:
        """Handle the end of mpirun or of a daemon; it is early if ranks are still running."""
        name, code, error = event.key, event.code, event.error
        key = None if name == "mpirun" else int(name[len("daemon") :])
        if key in self.gone:
            return
        self.gone.add(key)
        if key is None:
            self.code = code
            self.handle_program_end("mpirun", host, code, error, now + MPIRUN_GRACE)
        else:
            if not self.ranks[host] <= set(self.ended):
                program = "MPI's daemon on %s" if self.run.mpi else "what started %s's ranks"
                with_mpirun = host == self.first and self.code is not None
                is_expected = event.asked or with_mpirun
                deadline = now + DAEMON_GRACE
                self.handle_program_end(
                    program % host, host, code, error, deadline, asked=is_expected
                )
            self.order(self.first, hub_orders.LaunchEnded(key, code))

    def handle_program_end(
        self, program: str, host: str, code: int, error: str, deadline: float, asked: bool = False
    ) -> None:
        """Note an early end. `asked`: mpirun gave up, for a reason that will still be reported."""
        if self.all_ended() and not (self.vanished and by_signal(code)):
            return
        self.set_deadline(deadline)
        if not asked:  # 255: it ended on its own
            self.note_program(program, host, code, by_signal(code), error)

    def note_program(
        self, program: str, host: str, code: "int | None", killed: bool, error: str
    ) -> None:
        """Record the end of a program. `code` None: the exit code is not known."""
        alive = len(self.started - set(self.ended))
        ran = len(self.started)
        self.fact(run_events.ProgramEnded(program, code, killed, error[:4096], ran, alive), host)

    def on_rank_refused(self, host: str, event: run_events.RankRefused, now: float) -> None:
        self.over = event.refused[:400]
        self.fact(run_events.RankRefused(self.over), host)

    def on_rank_started(self, host: str, event: run_events.RankStarted, now: float) -> None:
        self.started.add(event.rank)
        self.stall.moved(now)
        self.fact(event, host)

    def on_rank_exited(self, host: str, event: run_events.RankExited, now: float) -> None:
        """Record a rank's end. A failed rank's wrapper stays: MPI would end the others at once."""
        rank, exit_state = event.rank, event.ended
        succeeded = self.ended[rank] = exit_state.code == 0
        self.vanished = self.vanished or exit_state.lost
        self.stall.moved(now)
        failures = len(self.ended) - sum(self.ended.values())
        tail = event.tail[-(SHORT_TAIL if succeeded or failures > LONG_TAILS else TAIL) :]
        hints = tuple(h[: run_events.LONGEST_HINT] for h in exit_state.hints)
        exit_state = exit_state.replace(hints=hints[: run_events.MOST_HINTS])
        self.fact(run_events.RankExited(rank, exit_state, tail), host)
        if succeeded:
            self.order(host, hub_orders.RankNoted(rank))
            if self.all_ended():
                self.set_deadline(now + END_WAIT)
            if self.is_success() and not self.decided:
                self.fact(run_events.RanksSucceeded())
            return
        if not self.asked:  # else the deadline of the request holds
            self.set_deadline(now + FAIL_GRACE)

    def on_unanswered(self, host: str, event: run_events.Unanswered, now: float) -> None:
        """Note which addresses do not answer the host's ranks."""
        self.paths.take(host, event.own, event.peers, now)

    def on_frozen(self, host: str, event: run_events.RankFrozen, now: float) -> None:
        if event.rank not in self.ended and not self.decided:
            self.fact(event, host)
            self.deadline = now

    def on_stop(self, host: str, event: run_events.StopAsked, now: float) -> None:
        """Handle `ipexctl stop`, which asks every host; repeats only shorten the remaining time."""
        if self.asked:
            self.set_deadline(now + event.seconds)
        else:
            self.ask_to_end("%s (ipexctl stop)" % event.by, event.seconds, now)

    def on_quiet(self, host: str, event: run_events.Quiet, now: float) -> None:
        """Note for how long the host's ranks have made no progress; 0: they do again."""
        self.stall.heard(host, event.seconds, now)

    def on_looked(self, host: str, event: run_events.LookDone, now: float) -> None:
        self.stall.take(host, event.number, event.computes)

    HANDLERS: "dict[type[Event], Callable[..., None]]" = {
        run_events.Ready: on_ready,
        run_events.Launch: on_launch,
        run_events.Unlaunch: on_unlaunch,
        run_events.Exited: on_exited,
        run_events.RankRefused: on_rank_refused,
        run_events.RankStarted: on_rank_started,
        run_events.RankExited: on_rank_exited,
        run_events.RankFrozen: on_frozen,
        run_events.Unanswered: on_unanswered,
        run_events.StopAsked: on_stop,
        run_events.Quiet: on_quiet,
        run_events.LookDone: on_looked,
    }

    def look_for_stall(self, now: float) -> None:
        """Look for a stall; also send the signal that waits for the last look."""
        active, quiet = self.active(), self.stall.quiet(self.active(), now)
        if self.last_look:
            if self.stall.complete(active, now):
                (why, seconds), self.last_look = self.last_look, None
                if not (self.stall.computes() or self.stall.stalled) and quiet >= stall.QUIET:
                    self.stalled(quiet)  # so that `why` works when the run has ended
                self.signal(why, now + seconds)
            return
        if self.decided:
            return
        if self.stop_at is not None and now >= self.stop_at:
            action = "--stall-action %s" % self.run.stall_action
            self.ask_to_end(action, self.run.grace, now)
            return
        news = self.stall.news(active, now)
        if news == "look":
            self.look(stall.LOOK_WAIT, now)
        elif news == "moving":
            self.stop_at = None
            self.fact(run_events.Moving())
        elif news:
            self.stalled(quiet)
            if self.run.stall_action != "note":
                self.stop_at = now + stall.NOTED

    def stalled(self, quiet: float) -> None:
        self.fact(run_events.Stalled(quiet, self.stall.number))

    def look(self, wait: float, now: float) -> None:
        looks = self.stall.order(now, wait)
        for host in self.active():
            self.order(host, hub_orders.Look(looks))

    def active(self) -> "list[str]":
        """Return the hosts on which ranks run."""
        running = self.started - set(self.ended)
        return [host for host in self.hosts if host not in self.lost and self.ranks[host] & running]

    # -- what follows --

    def set_deadline(self, deadline: float) -> None:
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)

    def ask_ranks(self, why: str, seconds: float, now: float) -> None:
        """Ask the ranks to end; those of a stalled run are looked at first."""
        self.asked = True
        if self.stall.wants_last_look(self.active(), now):
            self.last_look = (why, seconds)
            self.look(stall.LAST_LOOK_WAIT, now)
        else:
            self.signal(why, now + seconds)

    def signal(self, why: str, deadline: float) -> None:
        self.asked = True
        for host in self.hosts:
            self.order(host, hub_orders.SignalRanks(2, why))
        self.set_deadline(
            deadline if self.started else self.began
        )  # else no rank has anything to save

    def order(self, host: str, order: hub_orders.HostOrder) -> None:
        if host not in self.lost:
            self.orders.append((host, order))

    def fact(self, event: Event, host: str = "") -> None:
        """Record an event. `host`: the host that it is about."""
        self.facts.append(Fact(event, host))
        self.decided = self.decided or is_decisive(event)


def by_signal(code: int) -> bool:
    """Return whether a signal ended an MPI program. A shell around it exits with 128 + signal."""
    return code < 0 or 128 < code < 128 + 65
