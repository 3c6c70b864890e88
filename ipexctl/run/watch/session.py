"""Watch a run: a loop over one queue, which processes one message at a time.

What the run does next is decided by its hub, on the first host (remote/hub); what all hosts report
comes from there. Each host sends the output of its own ranks: WINDOW bytes ahead of what has been
painted here. So output never delays other messages, and a slow terminal neither fills memory nor
slows the run down. A connection that ends is made again (host_link.py), and continues.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from ipexctl.common import run_events, watch_orders
from ipexctl.errors import IpexctlError
from ipexctl.explain.known_failures import known_failures
from ipexctl.machines.agent import Agent
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import event_reader
from ipexctl.run.outcome.run_result import DetachedRun, HostEnd, RunResult
from ipexctl.run.outcome.verdict import (
    Ending,
    EndReports,
    HubRecord,
    Verdict,
    result_of,
    took_too_long,
)
from ipexctl.run.pace import slow_steps
from ipexctl.run.pace.rank_pace import HostPace
from ipexctl.run.watch.host_link import (
    WINDOW,
    Cut,
    HostLink,
    HostLinks,
    LinkEvent,
    Reached,
    WatchedRun,
)
from ipexctl.run.watch.run_notices import describe_checkpoint
from ipexctl.run.watch.run_output import RunOutput
from ipexctl.run.watch.run_watchers import Interrupts
from ipexctl.run.watch.start_request import INTERRUPT_GRACE, Orders

PING_EVERY = 3.0
STOP_WAIT = 20.0
SLOWEST_REST = 10_000  # bytes per second, of a host that sends the rest of its output
AWAY_TOLD = 5.0  # seconds after a host's connection ended until a note says that the run goes on
CUT_OFF = 5.0  # seconds in addition to the time after which the others end without the hub
SETTLED = 5.0  # seconds after another host's end for the hub to be reached again
HUB_WAIT = 5.0  # seconds after a second Ctrl-C for the hub to end the run


@dataclass
class Session:
    """A command that watches a run: `drive` starts the run on its hosts, `attach` joins one that
    has begun. Both return when the run has ended completely, or the user leaves it.
    """

    run: WatchedRun
    wires: HostLinks
    output: RunOutput
    interrupts: Interrupts
    noted: Callable[..., Verdict | None] = lambda hosts, *_: None  # how it ended, by journals

    def __post_init__(self) -> None:
        self.hub, self.links = self.run.hub, self.wires.links
        self.painter, self.teller = self.output.painter, self.output.teller
        self.ends = EndReports(self.run.plan.world_size)
        self.now = self.last_ping = time.monotonic()
        self.began = self.now - self.run.age
        self.seen_interrupts = 0
        self.patience: float | None = None  # until when the hub may answer
        self.over = False  # the hub has ended the run, or cannot
        self.stopping = False  # messages from now on do not count
        self.cut_off: float | None = None  # since when the hub of a run that lives on is silent
        self.lost_hub = ""  # how it was lost
        self.left: DetachedRun | None = None
        self.found: dict[str, int] = {}  # survivors, as reported to the hub
        self.given_up: set[str] = set()  # hosts that the hub has lost
        self.paces: list[HostPace] = []  # of hosts that have ended
        self.missing: list[str] = []  # hosts with incomplete output
        self.told_away: set[str] = set()  # unreachable hosts that were reported to the user

    def start_run(
        self, orders: Orders, hosts: Mapping[str, tuple[Agent, str]]
    ) -> RunResult | DetachedRun:
        """Start the run. `hosts`: the agent of each, and the folder in which its ranks start."""

        def start(link: HostLink) -> None:
            self.wires.start(link, orders.compose_start_order(link.name, hosts[link.name][1]))

        return self._watch_run({name: agent for name, (agent, _) in hosts.items()}, start)

    def attach(self, agents: Mapping[str, Agent]) -> RunResult | DetachedRun:
        """Join the run. `agents`: those of the hosts of the run that could be reached."""
        return self._watch_run(agents, self.wires.attach)

    def _watch_run(
        self, agents: Mapping[str, Agent], begin: Callable[[HostLink], None]
    ) -> RunResult | DetachedRun:
        """Process messages until the run has ended or the user leaves it."""
        self.painter.on_shown = self.wires.wake_loop
        self.interrupts.armed = True
        try:
            for host in self.run.plan.hosts:
                if host.host in agents:
                    begin(HostLink(host.host, agents[host.host]))
            while not self._is_over() and not self._check_leaving():
                self._process_messages()
            if not self.left:
                self._stop_hosts()
        finally:
            self.wires.closed = True
            self.interrupts.armed = False
        if self.left:
            return self.left
        result = self._compose_result()
        if (notifier := self.painter.notifier) and not self.run.options.kept:
            notifier.report_end(result, self.run.run_id, self.hub, is_hub=True)
        return result

    def _check_leaving(self) -> bool:
        """Return whether to leave the run: on request, or because its hub cannot be reached."""
        begun = self.run.attached or bool(self.output.state.started)
        ends = self.ends.facts or self.seen_interrupts
        started = len(self.output.state.started) == self.run.plan.world_size
        detach = self.run.options.detach and started and not ends
        if self.run.options.lives_on and begun and (self.interrupts.detach or detach):
            self.left = DetachedRun(self.run.run_id)
        elif self.cut_off is not None:
            self._handle_lost_hub(self.now - self.cut_off)
        return self.left is not None

    def _handle_lost_hub(self, seconds: float) -> None:
        """Handle a hub that is lost or unreachable. If it is lost, the other hosts end the run."""
        if seconds > SETTLED and any(link.has_ended for link in self.links.values()):
            self.ends.seen.append(HubRecord(self.hub, run_events.HostLost(self.lost_hub)))
            self.over = True
        elif self.interrupts.count or (
            (self.run.options.detach or self.hub not in self.wires.awaited)
            and seconds > self.run.options.host_timeout + CUT_OFF
        ):
            self.left = DetachedRun(self.run.run_id, self.lost_hub)

    def _is_over(self) -> bool:
        if self.patience is not None and self.now >= self.patience:
            return True
        return self.over

    def _process_messages(self) -> None:
        """Process messages for at most 0.1 s, then do what is due."""
        until = time.monotonic() + 0.1
        wait = 0.1
        with suppress(queue.Empty):
            while time.monotonic() < until:
                message = self.wires.inbox.get(timeout=wait)
                wait = 0.0
                self._read_clock()
                if isinstance(message, Reached):
                    self._resume_link(message.host, message.agent)
                elif message is not None:
                    self._handle_message(message)
        self._read_clock()
        self._acknowledge_output()
        self._ping_hosts()
        self._heed_interrupts()
        self._note_silence()
        self.teller.show_bars(self.now)
        if not (self.ends.facts or self.stopping):
            self.teller.note_stragglers(self.now)
            self.teller.note_start(self.now, self.began, self.output.health)
        seconds, health = self.now - self.began, self.output.health
        self.painter.tick(self.teller.make_tally(seconds, health, self.now))

    def _read_clock(self) -> None:
        """Read the clock. A gap means that this process was suspended; hosts were not silent."""
        gap, self.now = time.monotonic() - self.now, time.monotonic()
        if gap > 2.0:
            for link in self.links.values():
                link.heard = self.now
        timeout = self.run.options.host_timeout
        if gap > timeout - self._ping_interval() and not self.run.options.lives_on:
            self.painter.note(
                f"this machine was suspended for {gap:.0f} s, and hosts end a run if they receive "
                f"no message for {timeout:.0f} s"
            )

    # -- to the hosts --

    def _send_order(self, name: str, order: watch_orders.WatchOrder) -> None:
        link = self.links.get(name)
        if link is None or not link.is_open:
            return
        try:
            link.agent.feed(link.number, order.document())
        except IpexctlError as e:
            self._handle_cut(link, e.what)

    def _ping_hosts(self) -> None:
        """Ping all hosts from time to time, and cut links that are silent for too long."""
        silence = self.run.options.host_timeout
        for name in self.given_up & self.links.keys():
            if self.now - self.links[name].heard > SETTLED:
                self.wires.give_up(name)
        if self.now - self.last_ping < self._ping_interval():
            return
        self.last_ping = self.now
        for name, link in tuple(self.links.items()):
            self._send_order(name, watch_orders.Ping())
            if link.is_open and self.now - link.heard > silence:
                self._handle_cut(link, f"no message from it for {silence:.0f} s")

    def _ping_interval(self) -> float:
        return min(PING_EVERY, self.run.options.host_timeout / 4)

    def _acknowledge_output(self) -> None:
        """Tell hosts how much of their output was shown, so that they send more."""
        for name, size in self.painter.take_shown_bytes().items():
            if not (link := self.links.get(name)):  # of the previous attempt
                continue
            link.unshown = max(0, link.unshown - size)  # the previous connection may have been cut
            link.owed += size
            if link.owed >= WINDOW // 4:
                self._send_order(name, watch_orders.Shown(link.owed))
                link.owed = 0

    def _heed_interrupts(self) -> None:
        """Pass a new Ctrl-C, or a closed stdout, to the hub as an interrupt."""
        run = self.run
        if self.painter.gone and (run.attached or (self.painter.hung_up and run.options.lives_on)):
            self.interrupts.detach = True
        elif self.painter.gone and not self.interrupts.count:
            self.interrupts.count, self.interrupts.last = 1, self.painter.why
        if self.interrupts.count == self.seen_interrupts or self.stopping:
            return
        again = self.seen_interrupts or self.interrupts.count > 1
        self.seen_interrupts = self.interrupts.count
        self.ends.seen.append(HubRecord(self.hub, run_events.EndAsked(self.interrupts.last, 0)))
        self.painter.hide_interrupt_traces()
        order = watch_orders.Interrupt(self.interrupts.last, INTERRUPT_GRACE)
        self._send_order(self.hub, order)
        if again:
            self._send_order(self.hub, order)
            self.patience = self.now + HUB_WAIT

    def _note_silence(self) -> None:
        """Note ranks and hosts that do not respond."""
        if self.stopping:
            return
        for name, link in self.links.items():
            if link.lost and name not in self.told_away and not self.ends.facts:
                self._tell_away(link)
        heard = {name: link.heard for name, link in self.links.items() if link.is_open}
        self.output.note_silence(self.now, heard, exchange=not self.run.attached)

    def _tell_away(self, link: HostLink) -> None:
        if not link.away or self.now - link.away < AWAY_TOLD:
            return
        self.told_away.add(link.name)
        self.teller.note_lost_connection(link.name, "" if link.name == self.hub else self.hub)

    def _note_interrupt(self, why: str, seconds: float, hint: str = "") -> None:
        self.painter.note(
            f"{why}: the ranks were sent Ctrl-C and have {seconds:.0f} s to exit.{hint}"
        )

    # -- from the hosts --

    def _handle_message(self, message: LinkEvent) -> None:
        """Handle what came over a link: an event, or how the connection failed."""
        link, event = message.link, message.event
        if isinstance(event, Cut):
            if link.is_open:
                self._handle_cut(link, event.what.removeprefix(f"{link.name}: "))
        elif isinstance(event, IpexctlError):
            if link.is_open:
                self._handle_lost_host(link, event.what.removeprefix(f"{link.name}: "))
        elif not link.lost:
            link.at = max(link.at, message.at)
            self._handle_event(link, message.of, event)

    def _resume_link(self, name: str, agent: Agent) -> None:
        """Use a connection that is back; the host has kept everything since then."""
        if name not in self.wires.awaited:
            return  # the hub has lost it, too
        previous = self.links.get(name)
        since = previous.away if previous else self.began
        try:
            self.wires.resume_link(name, agent)
        except IpexctlError as e:
            self._handle_cut(self.links[name], e.what)
            return
        if name == self.hub:
            self.cut_off = None
        if name in self.told_away:
            self.told_away.discard(name)
            self.painter.note(f"{name}: reconnected after {self.now - since:.0f} s")

    def _handle_event(self, link: HostLink, host: str, event: event_reader.Event) -> None:
        """Handle an event of the link's own host, or one that the hub passes on."""
        name = link.name
        if isinstance(event, run_events.EndAsked | run_events.TimedOut):  # before its ranks print
            self.painter.hide_interrupt_traces()
        match event:
            case run_events.Ready(port):
                self._forward_hub_port(name, port)
            case event_reader.Output():
                self._handle_output(link, event)
            case event_reader.OutputEnd(rank):
                self.output.handle_log_end(name, rank)
            case run_events.Sample():
                self.output.health.sample(name, event)
            case run_events.RanksLooked():
                self.output.stall.add_look(name, event)
            case run_events.Exchanged(report):
                self.output.exchange.add(name, report, self.now)
            case run_events.Swept(survivors, rest):
                link.end, link.left = HostEnd(name, survivors, ""), rest
            case event_reader.RunDone():
                self._handle_run_done(link, event)
            case run_events.Broken(problem) if name == host:
                self.ends.seen.append(HubRecord(host, event))
                self.wires.give_up(host)
                self._send_order(self.hub, watch_orders.CannotGoOn(host, problem))
                self.over = self.over or host == self.hub
                self.patience = self.patience or self.now + HUB_WAIT
            case _ if name == self.hub:
                self._handle_hub_event(host, event)

    def _handle_hub_event(self, host: str, event: event_reader.Event) -> None:
        """Handle a message of the hub, about a host or the run."""
        fact = HubRecord(host, event)
        if fact.is_decisive and not self.stopping:
            self.ends.facts.append(fact)
            self.output.stall.ended = self.output.stall.ended or self.now
        match event:
            case run_events.RankStarted(rank):
                self.output.state.started.add(rank)
            case event_reader.RankEnded(end):
                if self.ends.facts == [fact]:
                    self.painter.failed(end.rank)
                self.output.rank_ended(end, self.now)
            case run_events.HostLost():
                self._send_order(host, watch_orders.EndPart())
                self.given_up.add(host)
                self.wires.awaited.discard(host)
            case run_events.Broken():
                self.wires.give_up(host)
            case run_events.Stalled():
                self.output.stall.begin_stall(event, self.now)
                self._report_stall(event)
            case run_events.Moving():
                self.output.stall.end_stall()
            case run_events.TimedOut(seconds):
                self._note_interrupt(took_too_long(seconds), INTERRUPT_GRACE)
            case run_events.EndAsked(actor, seconds):
                hint = " Another Ctrl-C kills them now." if self.seen_interrupts else ""
                self._note_interrupt(actor, seconds, hint)
            case run_events.ProgramEnded():
                self.output.mpi_tail += [f"{host}: {event.said}"] if event.said else []
            case run_events.Noted(text):
                self.painter.note(text)
            case run_events.Checkpoint():
                if event.withdrawn or self.painter.view.detailed:
                    self.painter.note(describe_checkpoint(event))
            case run_events.Over():
                self.over = self.ends.complete = True

    def _report_stall(self, stalled: run_events.Stalled) -> None:
        """Report a stall, but not the one that is found when the run is being ended."""
        if (notifier := self.painter.notifier) and not self.ends.facts:
            cause = f"no progress for {stalled.seconds:.0f} s"
            event = f"stalled-{stalled.number}", "stalled", cause
            notifier.report_event(self.run.run_id, self.hub, event)

    def _handle_run_done(self, link: HostLink, last: event_reader.RunDone) -> None:
        """Record the last message of a host; that of the hub ends the run."""
        report = last.report
        link.end = HostEnd(link.name, report.survivors, report.logs)
        self.output.exchange.add(link.name, report.traffic, self.now)
        self.paces.append(last.pace)
        if link.name == self.hub:
            self.found.update(report.found)
            self.over = True
            if report.killed:
                self.ends.seen.append(HubRecord(self.hub, run_events.HostLost(report.killed)))
        elif report.killed:
            self._send_order(self.hub, watch_orders.Doubt(link.name, report.killed))

    def _forward_hub_port(self, name: str, port: int) -> None:
        """Tell the other hosts where the hub listens."""
        if name == self.hub:
            for other in self.links:
                if other != self.hub:
                    self._send_order(other, watch_orders.HubAt(self.run.plan.master_addr, port))

    def _handle_output(self, link: HostLink, event: event_reader.Output) -> None:
        """Count and show output; a host that sends more than its window is lost."""
        size = len(event.data)
        log = event.program if event.rank is None else event.rank
        link.read[log] = link.read.get(log, 0) + size
        link.unshown += size
        link.left -= size
        link.came += size
        if link.unshown > 2 * WINDOW:
            self._handle_lost_host(link, "it sends more output than allowed")
            return
        self.output.handle_output(link.name, event, self.now)

    def _handle_cut(self, link: HostLink, why: str) -> None:
        """Handle the end of a connection. Reconnect if the run survives that."""
        if self.run.options.lives_on or link.name != self.hub:
            self.wires.reach_again(link.name)
        self._handle_lost_host(link, why)

    def _handle_lost_host(self, link: HostLink, why: str) -> None:
        """Handle a host that is unreachable. The hub decides whether it is lost, but for itself."""
        name = link.name
        link.lost = True
        link.away = self.now
        if name == self.hub and self.run.options.lives_on:
            self.cut_off, self.lost_hub = self.now, why
        elif name == self.hub:
            self.ends.seen.append(HubRecord(name, run_events.HostLost(why)))
            self.over = True
        else:
            self._send_order(self.hub, watch_orders.Doubt(name, why))

    # -- the end --

    def _stop_hosts(self) -> None:
        """Let every host end what is left, report what it found, and send the rest of the output.

        That may take long if the reader here is slow: another Ctrl-C skips the rest.
        """
        self.stopping = True
        for name in self.links:
            self._send_order(name, watch_orders.EndPart())
        began, patience = time.monotonic(), self.interrupts.count
        waited, previous = 0.0, began  # for the hosts, not for the reader
        for link in self.links.values():
            link.came = 0
        while any(link.is_open for link in self.links.values()) or (
            self.wires.awaited and waited < SETTLED
        ):
            self._process_messages()
            waited += 0.0 if self.painter.is_behind else self.now - previous
            previous = self.now
            largest_rest = max((k.came for k in self.links.values() if k.is_open), default=0)
            if waited > STOP_WAIT + largest_rest / SLOWEST_REST:
                break
            if self.interrupts.count > patience and self.now - began > 1.0:
                break
            self.teller.note_remaining_logs(
                self.now, sum(k.left for k in self.links.values() if k.is_open)
            )
        hosts, complete = (host.host for host in self.run.plan.hosts), self._list_complete_hosts()
        self.missing = [host for host in hosts if host not in complete]
        self.output.record.note_missing_logs(self.missing)

    def _list_complete_hosts(self) -> list[str]:
        """Return the hosts whose last message, and thus all output, has arrived."""
        return [name for name, link in self.links.items() if link.has_ended]

    def _read_verdict(self) -> Verdict | None:
        hub, complete = self.links.get(self.hub), self._list_complete_hosts()
        if hub and not hub.has_ended and self.now - hub.heard < self.run.options.host_timeout:
            return self.noted([*complete, self.hub], self.hub)  # its silence proves nothing
        return self.noted(complete)

    def _compose_result(self) -> RunResult:
        output, started = self.output, not self.run.attached
        state, counted = output.state, started or output.exchange.is_complete
        ending = Ending(
            run_id=self.run.run_id,
            seconds=time.monotonic() - self.began,
            hosts=tuple(self._host_end(host.host) for host in self.run.plan.hosts),
            verdict=self.ends.verdict(self._read_verdict, known_failures, all_of_it=started),
            mpi_tail=tuple(output.mpi_tail),
            stall=output.stall.finish_stall(self.now),
            exchange=output.exchange.end(completed=state.all_ok) if counted else None,
            require_together=self.run.options.require_together,
            slow=output.health.rank_loads.find_mostly_slow(),
            steps=slow_steps.judge_slow_steps(self.run.plan, self.paces, output.speed.speed),
        )
        return result_of(state, ending, known_failures)

    def _host_end(self, name: str) -> HostEnd:
        link = self.links.get(name)
        end = (link and link.end) or HostEnd(name, self.found.get(name), "")
        return replace(end, load=self.output.health.summarize_load(name))
