"""run: facts -> plan -> snapshot -> mpirun on node0 -> events -> one result."""

from __future__ import annotations

import os
import posixpath
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ipexctl.core.inventory.located_errors import nearest
from ipexctl.core.model import Host, HostDown, Inventory, LaunchPlan, Recap
from ipexctl.core.plan import rank_capacity
from ipexctl.core.plan.plan_request import Ports
from ipexctl.core.plan.port_plan import top
from ipexctl.core.plan.rank_share import fitting
from ipexctl.core.prune_limits import MB, Limits, read_limits
from ipexctl.core.run import launch_plan, line_filter, mpi, retry_command
from ipexctl.core.run.dataset_rules import Held
from ipexctl.core.run.launch_plan import Node, RunRequest
from ipexctl.core.run.line_filter import Choice, Wanted
from ipexctl.core.run.outcome import (  # fmt: skip
    EXIT_HOST_FAILED,
    Kept,
    LeftOut,
    RunResult,
    kept_plan,
    result_document,
)
from ipexctl.core.run.retry_command import Typed
from ipexctl.core.run.run_state import without_colour
from ipexctl.core.script import frameworks, misplaced_options
from ipexctl.core.script.frameworks import Frameworks
from ipexctl.core.script.launchers import refuse_launcher
from ipexctl.core.script.source import Source
from ipexctl.core.stack.env_choice import EnvChoice, asked_env
from ipexctl.errors import InputError, IpexctlError, RunFailed, Unreachable
from ipexctl.hosts.agent_start import AHEAD
from ipexctl.hosts.fleet import Fleet, reading
from ipexctl.hosts.suggested_commands import merged_hints, other_pythons, spelled, without
from ipexctl.hosts.target import ROOT, Target
from ipexctl.local.environment import environment
from ipexctl.local.import_roots import import_roots
from ipexctl.local.last_outcome import last_states
from ipexctl.local.project_lock import env_choice_of, project_top
from ipexctl.local.settings import load
from ipexctl.local.shipped_tables import failures
from ipexctl.verbs import prune
from ipexctl.verbs.doctor.probe_host import answer, question
from ipexctl.verbs.run import fetch_outputs, send_project
from ipexctl.verbs.run.forgotten_hosts import no_hosts
from ipexctl.verbs.run.run_folder import Record
from ipexctl.verbs.run.run_watchers import Interrupts, Painter, View
from ipexctl.verbs.run.script_sources import read_sources

if TYPE_CHECKING:
    from ipexctl.verbs.run.session import Session

HOST_SILENCE = 30.0
EXIT_NOT_STARTED = 120

T = TypeVar("T")


@dataclass(frozen=True)
class RunOptions:
    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    n: int | None = None
    ppn: int | None = None
    root: str = ROOT
    env: tuple[tuple[str, str], ...] = ()
    host_timeout: float = HOST_SILENCE
    timeout: float | None = None
    stall: float | None = None
    log_limit: int | None = None
    require_together: bool = False
    shown: Wanted = Wanted()
    fetch: tuple[str, ...] = ()  # globs below the folder where ranks start
    outputs: tuple[str, ...] = ()  # the same, as it came with --outputs
    fetch_limit: int = fetch_outputs.FETCH_LIMIT  # of both
    send: bool = True
    data: tuple[str, ...] = ()  # names of data sets
    force: bool = False  # start in spite of what the preflight sees
    confirm: send_project.Confirm = send_project.always_no  # is asked before much is sent
    typed: Typed = Typed()
    ports: Ports | None = None
    launcher: str = mpi.AGENTS
    secret: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def run(target: Target, options: RunOptions, view: View, interrupts: Interrupts) -> RunResult:
    """Raises IpexctlError when it never came to ranks; otherwise the result tells how it went."""
    fleet = Fleet(target, options.root)
    chosen = choice_of(options, fleet.hosts)
    script = script_of(options)
    files = script.files(options)
    with fleet:
        painter = Painter(view, target.note, chosen)
        try:
            return _Run(fleet, options, script, files, painter, interrupts).whole(chosen)
        finally:
            painter.close()


@dataclass
class _Run:
    """One run from the first connection to its result."""

    fleet: Fleet
    options: RunOptions
    script: Script
    files: send_project.Snapshot | send_project.InPlace
    painter: Painter
    interrupts: Interrupts
    run_id: str = field(default_factory=lambda: new_run_id())
    held: dict[str, tuple[Held, ...]] = field(default_factory=dict)  # data sets of each host
    limits: Limits = field(default_factory=lambda: read_limits(load()))

    def whole(self, chosen: Choice) -> RunResult:
        agents = self.fleet.agents
        for note in (*self.script.notes, *self.files.notes):
            self.painter.note(note)
        threading.Thread(target=_load, daemon=True).start()
        nodes = each(self.fleet, self._prepare, typed=self.script.typed)
        for text in (*other_pythons(agents.values()), *_borrowed(nodes.values())):
            self.painter.note(text)
        plan = self._plan(list(nodes.values()))
        line_filter.check(chosen, plan)
        known = {h.name: h for h in agents}
        used = [known[p.host] for p in plan.hosts]
        self._look(plan, {h: nodes[h] for h in used})
        self.painter.planned(self.run_id, plan)
        sent = each(self.fleet, self._send, used, typed=self.script.typed)
        self.painter.note(self.files.told(sum(s.bytes for s in sent.values())))
        record = Record.make(Path.cwd(), self.run_id, limit=self.options.log_limit)
        record.keep("plan.json", kept_plan(self.run_id, plan))
        result = self._session(plan, record, sent).drive(
            {h.name: (agents[h], sent[h].cwd) for h in used}
        )
        self.fleet.remember(_states(result), "run")
        kept = self._kept(result, plan, record, sent)
        again, left = self._again(result, list(nodes.values())), self._left_out(result, sent)
        result = replace(result, kept=kept, again=again, left_out=left)
        record.keep("result.json", result_document(result, failures()))
        self._prune(result, sent)
        self.painter.result(result)
        return result

    def _prepare(self, host: Host) -> Node:
        return prepare_on(self.fleet, host, self.options, self.script, self.run_id, self.held)

    def _plan(self, nodes: Sequence[Node]) -> LaunchPlan:
        return plan_of(nodes, self.options, self.script, self.held, self.run_id)

    def _look(self, plan: LaunchPlan, nodes: Mapping[Host, Node]) -> None:
        """What would break it is told before anything is sent."""
        from ipexctl.verbs.run import preflight

        def note(text: str) -> None:
            self.painter.note(spelled(text, self.fleet.target, self.fleet.root))

        flight = preflight.Flight(
            self.fleet, nodes, force=self.options.force, among=self.options.ports is None
        )
        preflight.review_script(
            self.script.argv, self.script.sources, plan, self.files, nodes.values(),
            note,
        )  # fmt: skip
        preflight.check(flight, note)

    def _send(self, host: Host) -> send_project.Sent:
        return self.files.bring(self.fleet.agents[host], self.fleet.root_of(host), self.run_id)

    def _session(
        self, plan: LaunchPlan, record: Record, sent: Mapping[Host, send_project.Sent]
    ) -> Session:
        from ipexctl.verbs.run.session import Session

        options, fleet, makers = self.options, self.fleet, _apart(sent)
        return Session(
            plan, self.run_id, options.root, options.host_timeout, self.painter, self.interrupts,
            record, options.timeout, options.launcher, options.stall, dict(options.secret),
            frameworks=self.script.frameworks,
            require_together=options.require_together,
            all_up=lambda: _spare(self.files, fleet, makers, self.limits.spare_mb * MB),
        )  # fmt: skip

    def _prune(self, result: RunResult, sent: Mapping[Host, send_project.Sent]) -> None:
        reachable = {h: one for h, one in sent.items() if result.reachable(h.name)}
        with suppress(KeyboardInterrupt):
            if pruned := prune.after_run(self.fleet, _apart(reachable), self.limits):
                self.painter.note(pruned)

    def _again(self, result: RunResult, nodes: Sequence[Node]) -> str:
        lost = [node.host.name for node in nodes if node.host.name in result.lost]
        left = [node for node in nodes if node.host.name not in lost]
        if not lost or not left:
            return retry_command.command(self.script.typed, (), None)
        fits = fitting(left, request_of(self.options, self.script))
        fewer = None if fits == self.options.n else fits
        return retry_command.command(self.script.typed, lost, fewer)

    def _left_out(
        self, result: RunResult, sent: Mapping[Host, send_project.Sent]
    ) -> LeftOut | None:
        if result.first is None or not isinstance(self.files, send_project.Snapshot):
            return None
        name, words = result.first.host, [*map(without_colour, result.tail)]
        start = next(one.cwd for host, one in sent.items() if host.name == name)
        return send_project.left_out_file(self.files, start, words, environment())

    def _kept(
        self,
        result: RunResult,
        plan: LaunchPlan,
        record: Record,
        sent: Mapping[Host, send_project.Sent],
    ) -> Kept:
        """What is here of the run: the logs, and the files that were asked for."""
        kept = record.kept()
        wanted = (*self.options.fetch, *self.options.outputs)
        if not wanted:
            return kept
        if not record.folder:
            return replace(kept, outputs=("outputs: not fetched, as nothing is kept here",))
        reachable = {h: one for h, one in sent.items() if result.reachable(h.name)}
        there = {h: self.fleet.agents[h] for h in _apart(reachable)}
        roots = {h.name: self.fleet.root_of(h) for h in there}
        patterns = fetch_outputs.from_the_top(self.script.project.cwd, wanted)
        first, limit = plan.hosts[0].host, self.options.fetch_limit
        wish = fetch_outputs.Wish(patterns, self.run_id, roots, first, limit)
        try:
            outputs = fetch_outputs.fetch_outputs(there, wish, record.folder, self.painter.note)
        except KeyboardInterrupt:
            outputs = ("outputs: interrupted; what is missing here is on the hosts",)
        return replace(kept, outputs=outputs)


def _load() -> None:
    """What is needed once the hosts have answered: imported while they start their Pythons."""
    import ipexctl.verbs.run.preflight
    import ipexctl.verbs.run.session  # noqa: F401


def _apart(sent: Mapping[Host, send_project.Sent]) -> list[Host]:
    """One of those that share the run's folder, as they share their home: the first."""
    first: dict[str, Host] = {}
    for host, one in sent.items():
        first.setdefault(one.mark or f"of {host.name}", host)
    return list(first.values())


def _spare(
    files: send_project.Snapshot | send_project.InPlace, fleet: Fleet, hosts: Sequence[Host],
    most: int,
) -> None:  # fmt: skip
    for host in hosts:
        with suppress(IpexctlError):  # of a host that is lost the session hears, too
            files.spare(fleet.agents[host], fleet.root_of(host), most)


def _borrowed(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        if node.prepared.borrowed:
            version = dict(node.prepared.packages).get("torch", "")
            started = f"by {node.prepared.mpi}" if node.prepared.mpi else "without MPI"
            yield (
                f"nothing is installed here, so {node.prepared.prefix}/bin/python3 is used: "
                f"torch {version}".rstrip()
                + f", ranks are started {started}"
            )


def choice_of(options: RunOptions, hosts: Inventory) -> Choice:
    """What is shown of the run. Raises InputError for it and for what is to be brought back."""
    chosen = line_filter.read(
        options.shown, hosts, last_states(hosts) if options.shown.hosts else {}
    )
    fetch_outputs.check_patterns("--fetch", options.fetch)
    fetch_outputs.check_patterns("--outputs", options.outputs)
    return chosen


def plan_of(
    nodes: Sequence[Node],
    options: RunOptions,
    script: Script,
    held: Mapping[str, tuple[Held, ...]],
    run_id: str,
) -> LaunchPlan:
    plan = launch_plan.plan(nodes, request_of(options, script), run_id)
    facts = {node.host.name: node.facts for node in nodes}
    plan = rank_capacity.checked(plan, facts, force=options.force)
    if options.data:
        from ipexctl.verbs import data

        plan = data.planned(plan, held, options.data, dict(options.env))
    mpi.check_launcher(options.launcher, plan.mpi)
    return plan


def request_of(options: RunOptions, script: Script) -> RunRequest:
    return RunRequest(
        script.argv, options.n, options.ppn, options.env, options.ports,
        tuple(name for name, _ in options.secret), script.frameworks or Frameworks(),
        script.roots,
    )  # fmt: skip


def new_run_id() -> str:
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)


@dataclass(frozen=True)
class Script:
    project: send_project.Project
    argv: tuple[str, ...]  # what follows the interpreter
    frameworks: Frameworks | None = None  # None: --no-sync, the code need not be here
    sources: tuple[Source, ...] = ()
    env: EnvChoice | None = None
    roots: tuple[str, ...] = ()  # of the project's own packages, from where ranks start
    typed: Typed = Typed()  # the command to suggest: ours before the script, where it was meant so
    notes: tuple[str, ...] = ()

    def files(self, options: RunOptions) -> send_project.Snapshot | send_project.InPlace:
        if options.send:
            snapshot = send_project.take(self.project, options.confirm, environment())
            if not options.module:
                send_project.check_sent(snapshot, self.argv[0], environment())
            return snapshot
        if options.fetch or options.outputs:
            raise InputError(
                "--fetch and --outputs do not go with --no-sync",
                why="they bring files out of the folder of the run, which --no-sync does not make",
            )
        return send_project.InPlace(self.project.start, "" if options.module else self.argv[0])


def script_of(options: RunOptions) -> Script:
    found = _script_of(options)
    start, here = found.project.start, Path.cwd()
    top = found.project.folder if options.send else project_top(start)
    found = replace(found, env=env_choice_of(start, top, here))
    if not options.send:
        return _with_command(found, options)
    sources = tuple(read_sources(found.project.folder, found.project.cwd, found.argv))
    used = frameworks.of_run(sources, found.argv, dict(options.env))
    folder, cwd = found.project.folder, found.project.cwd or "."
    roots = tuple(posixpath.relpath(root, cwd) for root in import_roots(folder))
    found = replace(found, frameworks=used, sources=sources, roots=roots)
    return _with_command(found, options)


def _with_command(script: Script, options: RunOptions) -> Script:
    own = frozenset[str]().union(*(source.options for source in script.sources))
    meant = misplaced_options.meant(options.typed, options.args, own)
    note = misplaced_options.note(options.typed, meant)
    return replace(script, typed=meant, notes=(note,) if note else ())


def _script_of(options: RunOptions) -> Script:
    here = Path.cwd()
    if options.module or not os.path.isfile(options.script) or Path(options.script).is_absolute():
        typed = options.typed.options
        refuse_launcher(options.script, options.args, module=options.module, options=typed)
    if options.module:
        project = (
            send_project.project_of(here, here) if options.send else send_project.Project(here)
        )
        return Script(project, ("-m", options.script, *options.args))
    given = Path(options.script)
    if not options.send:  # it need not be here
        start = given.parent if given.is_absolute() and here not in given.parents else here
        return Script(send_project.Project(start), (_named(given, start), *options.args))
    if not os.path.isfile(given):
        raise _no_script(given, options)
    script = given.resolve()  # a link's target is what Python takes the folder of, too
    project = send_project.project_of(script.parent, here)
    return Script(project, (_named(script, project.start), *options.args))


def _no_script(given: Path, options: RunOptions) -> InputError:
    is_folder = os.path.isdir(given)
    folder = given if is_folder else given.parent
    names = [path.name for path in folder.glob("*.py")]
    near = nearest(given.name, names) or (names[0] if len(names) == 1 else "")
    found = str(folder / near) if near else given.name if os.path.isfile(given.name) else "SCRIPT"
    meant = (found, *options.args)
    hint = retry_command.command(replace(options.typed, script=meant), (), None)
    if is_folder:
        return InputError(f"{given} is a folder", why="the script itself is needed", hint=hint)
    return InputError(
        f"there is no script {given}", why=f"looked in {Path.cwd() / given.parent}", hint=hint
    )


def _named(script: Path, start: Path) -> str:
    """The script as the ranks call it."""
    name = os.path.relpath(script, start) if script.is_absolute() else os.fspath(script)
    return f"./{name}" if name.startswith("-") else name  # or Python takes it for an option


def _states(result: RunResult) -> dict[str, str]:
    """For @last-failed: where the first rank failed, and who was lost."""
    states = {end.host: "unreachable" if end.survivors is None else "ok" for end in result.hosts}
    return {**states, result.first.host: "failed"} if result.first else states


def prepare_on(
    fleet: Fleet, host: Host, options: RunOptions, script: Script, run_id: str,
    held: dict[str, tuple[Held, ...]],
) -> Node:  # fmt: skip
    """The question for its facts goes with the agent: one round trip less."""
    root, env = fleet.root_of(host), script.env.key if script.env else ""
    agent = fleet.connect(host, ahead=question(root, listen=False, env=env))
    if agent.hello.kind != "python":
        raise _not_ready(f"{host.name}: no Python 3.6 or newer there", "ipexctl doctor")
    facts = answer(agent, AHEAD, agent.hello.sent, root)[0]
    bounded = top(options.ports) if options.ports else None
    asked = {"root": root, "run_id": run_id, "ports": bounded, "pythons": _pythons(host)}
    done = agent.call("run.run_environment.find", {**asked, **asked_env(script.env)}).done
    with reading(host.name, "what it says of itself"):
        prepared = launch_plan.read_prepared(done, script.env)
    if done.get("mpi") == mpi.SYSTEM and not prepared.mpi:
        raise mpi.no_mpirun(host.name, done.get("system"))
    if prepared.mpi and not done.get("mpirun") and not done.get("mpi"):
        raise _not_ready(f"{host.name}: there is no mpirun in {prepared.prefix}", "ipexctl install")
    if options.data:
        from ipexctl.verbs import data

        held[host.name] = data.use(agent, root, options.data)
    return Node(host, facts, prepared)


def _pythons(host: Host) -> list[str]:
    """For this machine, where nothing may be installed: the Pythons the user has before him."""
    if not host.local:
        return []
    active = [environment().get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    found = [shutil.which(name) for name in ("python3", "python")]
    last = [*filter(None, found), sys.executable]
    return [*(f"{prefix}/bin/python" for prefix in active if prefix), *last]


def _not_ready(what: str, hint: str) -> RunFailed:
    e = RunFailed(what, hint=hint)
    e.slug = "not-installed"
    return e


def each(
    fleet: Fleet,
    work: Callable[[Host], T],
    hosts: Sequence[Host] | None = None,
    *,
    typed: Typed,
) -> dict[Host, T]:
    """The same on all hosts, and all must succeed: a training needs every one of them."""
    from ipexctl.verbs.trust import unknown_keys

    found = fleet.each(work, hosts)
    if downs := list(fleet.downs.values()):
        if downs[0].slug == "not-installed" and not (fleet.target.hostfile or fleet.target.hosts):
            raise no_hosts(downs[0], typed)
        again = without(typed, [d.host for d in downs]) if found else ""
        raise unknown_keys(downs, fleet.target) or _together(downs, len(found), again)
    return found


def _together(downs: Sequence[HostDown], others: int, again: str) -> IpexctlError:
    first, total = downs[0], len(downs) + others
    what, why = first.what, first.why
    hint = "\n".join(filter(None, (merged_hints(downs), again)))
    if len(downs) > 1:
        what = f"{len(downs)} of {total} hosts cannot run this"
        why = "\n".join(d.what for d in downs)
    if any(d.state is Recap.UNREACHABLE for d in downs):
        return Unreachable(what, why=why, hint=hint)
    only_missing = all(d.slug == "not-installed" for d in downs)
    code = EXIT_HOST_FAILED if only_missing else EXIT_NOT_STARTED
    return RunFailed(what, why=why, hint=hint, exit_code=code)
