"""Run the steps of a file on all hosts. Consecutive host steps are one request for each host."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ipexctl.base.located_errors import Bad, FoundErrors, did_you_mean
from ipexctl.errors import InputError, IpexctlError, Unreachable
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local import last_outcome
from ipexctl.machines.agent_start import AHEAD
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.probe_host import facts_request, read_facts_reply
from ipexctl.machines.target import Target
from ipexctl.play.host_batch import BoundStep, HostBatches, PlayListener
from ipexctl.play.play_hosts import PlayHosts, play_hosts
from ipexctl.play.play_journal import PlayJournal, of_handler, open_journal
from ipexctl.play.play_scope import PlayScope
from ipexctl.play.steps import all_steps
from ipexctl.play.steps.step_kinds import Acting, FleetStep, HostStep, Result
from ipexctl.play.text.check_prediction import StepPrediction
from ipexctl.play.text.conditions import check_names, check_values, condition_holds, needs_facts
from ipexctl.play.text.fact_values import FACTS
from ipexctl.play.text.interpolation import Scope
from ipexctl.play.text.play_options import PlayOptions
from ipexctl.play.text.play_outcome import PlayReport, State, StepOutcome
from ipexctl.play.text.play_values import Play, PlayStep, chosen_steps
from ipexctl.play.text.step_schema import Step, bind_step
from ipexctl.quick_dataclass import dataclass

WHEN = "condition (when) not met"
DONE = "done before (--resume)"


@dataclass(frozen=True)
class PlayStart:
    """What is known before the first step, for the screen."""

    play: Play
    steps: tuple[PlayStep, ...]
    hosts: tuple[str, ...]
    on: Mapping[int, frozenset[str]]  # by the number of a step: the hosts that it is for
    mask: Callable[[str], str]


def run_play(
    play: Play,
    target: Target,
    options: PlayOptions,
    listener: PlayListener,
    started: Callable[[PlayStart], None] = lambda start: None,
) -> PlayReport:
    """Run a play. Raises InputError for a mistake in the play before any host is asked."""
    began = time.monotonic()
    steps = chosen_steps(play, options)
    hosts = play_hosts(play, target)
    scope = PlayScope(play, options.extra, hosts=hosts.inventory.hosts)
    validate_play(play, hosts, scope)
    names = tuple(host.name for host in hosts.inventory.hosts)
    on = {step.number: hosts.on[step.number] for step in steps}
    started(PlayStart(play, steps, names, on, scope.mask_text))
    journal = open_journal(play.source, resume=options.resume, check=options.check)
    outcomes: list[StepOutcome] = []
    for part in _serial_parts(hosts.inventory, play.serial):
        with Fleet(target, options.root, part) as fleet:
            part_hosts = PlayHosts(part, hosts.on)
            run = _PlayRun(
                play=play,
                steps=steps,
                hosts=part_hosts,
                fleet=fleet,
                options=options,
                scope=scope,
                listener=listener,
                journal=journal,
            )
            try:
                run.run()
            except KeyboardInterrupt:
                run.interrupted = True
                raise
        outcomes += run.outcomes
        if run.has_fatal_failure:
            break
    report = PlayReport(play, names, tuple(outcomes), options.check, time.monotonic() - began)
    if not options.check:
        last_outcome.remember_states(hosts.inventory, report.states, "play")
    return report


def refuse_unknown(extra: Mapping[str, str], plays: Sequence[Play], texts: Sequence[str]) -> None:
    """Raise InputError for a variable that the text of no play names: it may be misspelled.

    Templates are not searched: with a play that has one, any variable may be given.
    """
    declared = {name for play in plays for name in play.vars}
    facts = {"host", *FACTS} - declared  # a variable may have the name of a fact
    has_template = any(re.search(r"\btemplate\b", text) for text in texts)
    conditions = [step.when for play in plays for step in play.all_steps]
    compared = {key.text for when in conditions for key, _ in getattr(when, "items", ())} - facts
    used = {name for text in texts for name in re.findall(r"\$\{ *(\w+) *\}", text)}
    variables = sorted((declared | used | compared) - {"host", "item"})
    for name, value in extra.items():
        if name in facts:
            why = "hosts report facts; a variable cannot replace one"
            raise InputError(f"-e {name}: {name} is a fact", why=why, slug="variable-is-fact")
        if name not in variables and not has_template:
            near = did_you_mean(name, variables)
            hint = f"variables: {', '.join(variables)}" if variables else ""
            raise InputError(
                f"-e {name}: no play reads this variable{near}", hint=hint, slug="variable-unread"
            )
        pairs = (word for word in value.split()[1:] if "=" in word)
        if second := next((word for word in pairs if word.split("=")[0] in variables), ""):
            what = f"-e sets one variable, and {second.split('=')[0]} would be a part of {name}"
            raise InputError(what, hint=f"-e {name}=... -e {second}", slug="variable-syntax")


def validate_play(play: Play, hosts: PlayHosts, scope: PlayScope) -> None:
    """Check every step with the values that are known before any host is asked.

    Raises InputError.
    """
    errors = FoundErrors()
    for step in play.all_steps:
        with errors.collect_errors():
            _validate_step(step, hosts, scope)
    errors.raise_all()


def _validate_step(step: PlayStep, hosts: PlayHosts, scope: PlayScope) -> None:
    """Check one step, its condition and its files on each of its hosts. Raises InputError."""
    if step.sudo and issubclass(all_steps()[step.kind], FleetStep):
        step_sudo = f"{step.place}: {step.kind} cannot be combined with sudo"
        raise InputError(
            step_sudo, why="it works in the user's own folder", slug="step-takes-no-sudo"
        )
    if step.when is not None:
        check_names(step.when, dict.fromkeys(scope.variable_names(hosts.inventory.hosts)))
    for host in hosts.of(step):
        if step.when is not None:
            check_values(step.when, scope.scope_on(host, step.item))
        values = scope.scope_on(host, step.item)
        bound = _bind_on(step, values)
        created_by_play = host.local and isinstance(bound, FleetStep)
        if bound is not None and not created_by_play:
            _check_files(step, bound, values)


def _check_files(step: PlayStep, bound: Step, scope: Scope) -> None:
    """Check that the files a step sends exist and are usable before the first step begins."""
    for name, path in bound.local_files.items():
        if not Path(path).expanduser().exists():
            folder = "" if Path(path).is_absolute() else f" in {Path.cwd()}"
            what = f"{step.place}: {step.kind}: {name}: there is no file or folder {path}{folder}"
            why = "paths on this machine are relative to the current directory" if folder else ""
            raise InputError(scope.mask_text(what), why=why, slug="local-file-missing")
    if isinstance(bound, HostStep):
        try:
            bound.validate_files(scope)
        except Bad as e:
            error = e.prefixed(f"{step.kind}: ").masked(scope.mask_text)
            raise error.placed(step.place) from None


def _serial_parts(hosts: Inventory, serial: int) -> Iterator[Inventory]:
    size = serial or len(hosts.hosts)
    for i in range(0, len(hosts.hosts), size):
        yield replace(hosts, hosts=hosts.hosts[i : i + size])


class _PlayRun:
    """Runs the steps on some of the hosts."""

    def __init__(
        self,
        play: Play,
        steps: Sequence[PlayStep],
        hosts: PlayHosts,
        fleet: Fleet,
        options: PlayOptions,
        scope: PlayScope,
        listener: PlayListener,
        journal: PlayJournal,
    ) -> None:
        self.interrupted = False
        self._hosts, self._journal = hosts, journal
        self._unseen: dict[tuple[str, int], str] = {}
        self._play, self._steps, self._fleet = play, steps, fleet
        self._options, self._scope = options, scope
        self._show_end = listener.end
        self._listener = replace(listener, end=self._note_end)
        self._batches = HostBatches(
            fleet, self._listener, options.check, options.diff, options.password
        )
        self._failed: set[str] = set()
        self._notified: dict[str, set[str]] = {}
        self.outcomes: list[StepOutcome] = []

    @property
    def has_fatal_failure(self) -> bool:
        return self._play.any_errors_fatal and bool(self._failed)

    def run(self) -> None:
        """Run the steps on all hosts, then the handlers that they notified."""
        self._connect()
        for segment in self._split_segments(self._steps):
            if self.has_fatal_failure:
                break
            remaining = self._still_in_play()
            self._run_segment(segment, remaining)
            if self._options.check:
                self._add_unchecked(segment, {host.name for host in remaining})
        for name, steps in self._play.handlers.items():
            hosts = self._notified.get(name, set()) | self._find_pending_hosts(name, steps)
            self._failed_before, self._failed = self._failed, set()
            for segment in self._split_segments(steps):
                notified = [h for h in self._fleet.alive if h.name in hosts]
                self._run_segment(segment, [h for h in notified if h.name not in self._failed])
            for host in self._fleet.alive:
                if host.name in hosts and host.name not in self._failed:
                    self._journal.forget_entry(host.name, of_handler(name), sync=False)
            self._failed |= self._failed_before

    def _add_unchecked(self, segment: Sequence[PlayStep], checked: Container[str]) -> None:
        """Report the step as unchecked on hosts where an earlier step fails."""
        for step in segment:
            for host in self._fleet.alive:
                if host.name not in checked and host.name in self._hosts.on[step.number]:
                    text = "not checked: an earlier step fails"
                    self._add(StepOutcome(step, host.name, State.UNKNOWN, text))

    def _find_pending_hosts(self, handler: str, steps: Sequence[PlayStep]) -> set[str]:
        """Return the hosts on which the last run of the play stopped before this handler."""
        names = {host.name for host in self._fleet.alive} - self._notified.get(handler, set())
        due = {name for name in names if self._journal.has_entry(name, of_handler(handler))}
        if due and steps:
            text = f"{handler}: notified on {fold(sorted(due))} by an earlier run, still to be run"
            self._listener.line("", steps[0], text)
        return due

    def _split_segments(self, steps: Sequence[PlayStep]) -> Iterator[list[PlayStep]]:
        """Group consecutive host steps; each step that needs all hosts is alone."""

        def key(step: PlayStep) -> int:
            alone = issubclass(all_steps()[step.kind], FleetStep) or self._play.any_errors_fatal
            return step.number if alone else 0

        return (list(segment) for _, segment in groupby(steps, key))

    def _still_in_play(self) -> list[Host]:
        return [host for host in self._fleet.alive if host.name not in self._failed]

    # -- before the first step --

    def _connect(self) -> None:
        """Connect to all hosts; if a step needs facts, ask for them in the same round trip."""
        first = self._steps[0] if self._steps else None
        wants_facts = self._needs_facts()

        def connect(host: Host) -> None:
            root = self._fleet.root_of(host)
            if not wants_facts:
                self._fleet.connect(host)
                return
            agent = self._fleet.connect(host, ahead=[facts_request(root, listen=False)])
            self._scope.facts[host.name] = read_facts_reply(agent, AHEAD, agent.hello.sent, root)[0]

        self._fleet.map_hosts(connect)
        if any(self._wants_sudo(step) for step in self._may_run):
            hosts = [host for host in self._fleet.alive if self._needs_sudo(host)]
            self._fleet.map_hosts(self._batches.require_sudo, hosts)
        by_name = {host.name: host for host in self._fleet.hosts.hosts}
        for down in self._fleet.failures:
            refused = self._needs_sudo(by_name[down.host]) if down.slug == "sudo" else None
            if step := refused or first:
                self._add(StepOutcome(step, down.host, **vars(Result.of_down(down))))

    def _needs_facts(self) -> bool:
        steps = self._play.all_steps
        used = any(name.startswith("fact.") for name in self._scope.used)
        return used or any(needs_facts(step.when) for step in steps)

    def _wants_sudo(self, step: PlayStep) -> bool:
        return step.sudo and issubclass(all_steps()[step.kind], HostStep)

    def _needs_sudo(self, host: Host) -> PlayStep | None:
        """Return the host's first step that would stop it if sudo is refused."""
        steps = (step for step in self._may_run if host.name in self._hosts.on[step.number])
        sudo_steps = (step for step in steps if self._wants_sudo(step) and not step.ignore_errors)
        return next((step for step in sudo_steps if self._is_step_due(step, host)), None)

    @property
    def _may_run(self) -> tuple[PlayStep, ...]:
        handlers = self._play.handlers
        notified = dict.fromkeys(name for step in self._steps for name in step.notify)
        return (*self._steps, *(step for name in notified for step in handlers[name]))

    def _is_step_due(self, step: PlayStep, host: Host) -> bool:
        return condition_holds(step.when, self._scope.scope_on(host, step.item))

    # -- steps --

    def _run_segment(self, segment: list[PlayStep], hosts: list[Host]) -> None:
        """Run a fleet step once, or the host steps of a segment on all hosts in parallel."""
        kind = all_steps()[segment[0].kind]
        if not hosts:
            return
        if issubclass(kind, FleetStep):
            self._run_fleet_step(segment[0], kind, hosts)
            return
        on = self._hosts.on
        work = {
            host: [self._bind_step(step, host) for step in segment if host.name in on[step.number]]
            for host in hosts
        }
        results = self._fleet.map_hosts(lambda host: self._batches.run(host, work[host]), hosts)
        for outcomes in results.values():
            for outcome in outcomes:
                self._collect_outcome(outcome)

    def _bind_step(self, step: PlayStep, host: Host) -> BoundStep:
        if not self._is_step_due(step, host):
            return BoundStep(step, None, WHEN)
        values = self._scope.scope_on(host, step.item)
        bound = _bind_on(step, values)
        assert isinstance(bound, HostStep)
        if self._is_done(step, bound, host.name):
            return BoundStep(step, None, DONE)
        return BoundStep(step, bound, scope=values)

    def _is_done(self, step: PlayStep, bound: Step, host: str) -> bool:
        """Look the step up in the journal; `_unseen` keeps the entry until the step has ended."""
        if not bound.unseen:
            return False
        self._unseen[host, step.number] = repr(bound)
        return self._journal.is_done(host, repr(bound))

    def _note_end(self, outcome: StepOutcome) -> None:
        """Note the outcome. Called from the hosts' threads as soon as a step has ended."""
        entry = self._unseen.get((outcome.host, outcome.step.number))
        if entry and outcome.state in (State.OK, State.CHANGED):
            self._journal.note(outcome.host, entry)
        if outcome.state is State.CHANGED:
            for handler in outcome.step.notify:
                self._journal.note(outcome.host, of_handler(handler), sync=False)
        if not self.interrupted:  # after Ctrl-C, hosts only seem to be lost
            self._show_end(outcome)

    def _run_fleet_step(self, step: PlayStep, kind: type[FleetStep], hosts: list[Host]) -> None:
        """Run a step once for all hosts on which its condition holds, and store their outcomes."""
        hosts = [host for host in hosts if host.name in self._hosts.on[step.number]]
        matching = [host for host in hosts if self._is_step_due(step, host)]
        for host in hosts:
            if host not in matching:
                self._add(StepOutcome(step, host.name, State.SKIPPED, WHEN))
        if not matching:
            return
        names = tuple(host.name for host in matching)
        for name in names:
            self._listener.begin(name, step)
        bound = self._bind_once(step, kind, matching)
        done = [self._is_done(step, bound, name) for name in names]
        if all(done):
            for name in names:
                self._add(StepOutcome(step, name, State.SKIPPED, DONE))
            return

        def say(host: str, line: str) -> None:
            self._listener.line(host, step, line)

        began = time.monotonic()
        results = self._act_with_retries(bound, self._make_acting(names, say), step)
        seconds = time.monotonic() - began
        for name in names:
            result = results.get(name, Result(State.FAILED, "did not report a result"))
            result = self._predict_result(kind, name, result) if self._options.check else result
            state = State.IGNORED if result.state.stops and step.ignore_errors else result.state
            fields = vars(replace(result, state=state))
            self._add(StepOutcome(step, name, **fields, seconds=seconds))

    def _make_acting(self, names: tuple[str, ...], say: Callable[[str, str], None]) -> Acting:
        return Acting(self._fleet, names, self._options.check, say, self._options.password)

    def _bind_once(self, step: PlayStep, kind: type[FleetStep], hosts: list[Host]) -> FleetStep:
        """Return the step with its values. Raises InputError if they differ between hosts."""
        bound_steps = [_bind_on(step, self._scope.scope_on(host, step.item)) for host in hosts]
        for host, bound in zip(hosts, bound_steps, strict=True):
            if bound != bound_steps[0]:
                raise InputError(
                    f"{step.place}: {step.kind} would have different arguments on {host.name}",
                    why="this step runs once for all hosts",
                    hint="on: HOSTS   # several steps, one for each group of hosts",
                    slug="step-differs-between-hosts",
                )
        assert isinstance(bound_steps[0], FleetStep)
        return bound_steps[0]

    def _act_with_retries(
        self, bound: FleetStep, acting: Acting, step: PlayStep
    ) -> Mapping[str, Result]:
        """Run a fleet step until no host fails or its retries are used up."""
        for tries_left in range(step.retries, -1, -1):
            results = _act_on_fleet(bound, acting)
            bad = [name for name, result in results.items() if result.state.stops]
            if not bad or not tries_left or acting.check:
                break
            acting.say("", f"failed on {len(bad)} of {len(results)}; next try in {step.delay:g} s")
            time.sleep(step.delay)
        return results

    def _predict_result(self, kind: type[FleetStep], host: str, result: Result) -> Result:
        """Return the result in check mode: changes that earlier steps would make may affect it."""
        if result.state in (State.SKIPPED, State.UNREACHABLE):
            return result
        changed = {State.WOULD_CHANGE: True, State.UNKNOWN: None}.get(result.state, False)
        failed = result.state is State.FAILED
        state = self._batches.predict_step_state(
            host, StepPrediction(changed, failed, kind.reads, kind.writes)
        )
        return replace(result, state=state)

    # -- outcomes --

    def _add(self, outcome: StepOutcome) -> None:
        self._listener.end(outcome)
        self._collect_outcome(outcome)

    def _collect_outcome(self, outcome: StepOutcome) -> None:
        self.outcomes.append(outcome)
        if outcome.state.stops:
            self._failed.add(outcome.host)
        if outcome.state in (State.CHANGED, State.WOULD_CHANGE, State.UNKNOWN):
            for handler in outcome.step.notify:
                self._notified.setdefault(handler, set()).add(outcome.host)


def _bind_on(step: PlayStep, scope: Scope) -> Any:
    """Return the step with its values; None if one is not known yet. Raises InputError."""
    return step.ready or bind_step(all_steps()[step.kind], step.node, scope)


def _act_on_fleet(bound: FleetStep, acting: Acting) -> Mapping[str, Result]:
    try:
        return bound.act(acting)
    except IpexctlError as e:
        state = State.UNREACHABLE if isinstance(e, Unreachable) else State.FAILED
        return dict.fromkeys(acting.hosts, Result(state, e.what, e.why, e.hint, e.slug))
