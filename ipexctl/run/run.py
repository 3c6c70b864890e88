"""run: facts -> plan -> snapshot -> mpirun on the first host -> events -> one result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ipexctl import __version__, trace
from ipexctl.base import quoting, retry_command
from ipexctl.common.run_about import RunAbout
from ipexctl.data.rules.dataset_rules import Held, checked_names
from ipexctl.errors import InputError, unknown_value
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.environment import environment
from ipexctl.local.last_outcome import last_states
from ipexctl.local.project_lock import project_of
from ipexctl.local.run_options import (
    COMPRESSIONS,
    STALL_ACTIONS,
    WITHOUT_CHECKPOINT,
    RunOptions,
)
from ipexctl.local.settings import load_settings
from ipexctl.local.shipped_tables import migration_rules
from ipexctl.local.typed_runs import remember_typed_run
from ipexctl.machines.fleet import Fleet, start_in_thread
from ipexctl.machines.suggested_commands import other_pythons, spell_hint, suggest_command
from ipexctl.machines.target import Target
from ipexctl.project import send_agreed, send_project
from ipexctl.project.files.missing_file import LeftOut
from ipexctl.quick_dataclass import dataclass
from ipexctl.remove.prune_limits import PruneLimits, read_limits
from ipexctl.run import start_keepers
from ipexctl.run.outcome import line_filter
from ipexctl.run.outcome.host_reports import checked_name
from ipexctl.run.outcome.line_filter import Choice
from ipexctl.run.outcome.run_choice import describe_owner, free_name
from ipexctl.run.outcome.run_result import DetachedRun, LocalRunFolder, RunResult
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.plan.launch import LaunchPlan, PlannedHost
from ipexctl.run.plan.ranks_per_host import fit_rank_count
from ipexctl.run.prepare_hosts import call_every_host, note_borrowed_envs, prepare_host
from ipexctl.run.run_plan import (
    add_shares,
    choose_run_network,
    make_run_plan,
    make_run_request,
    plan_candidates,
)
from ipexctl.run.run_script import Script, move_refused_first, new_run_id, read_script
from ipexctl.run.watch import fetch_outputs
from ipexctl.run.watch.event_notifier import EventNotifier
from ipexctl.run.watch.run_folder import AttemptFolders, RunFolder
from ipexctl.run.watch.run_notices import note_detached_run
from ipexctl.run.watch.run_watchers import Interrupts, Painter, View

CONCLUDED = 10.0  # seconds for a host to record the result
LATEST_LOGIN = 60.0  # seconds: no thread waits longer for hosts that are not reached
NOTED_SYNC = 1.0  # seconds after which a note says what was sent

if TYPE_CHECKING:
    from ipexctl.blobs.tls_keys import Keys
    from ipexctl.common.run_inputs import GitState
    from ipexctl.machines.agent import Agent
    from ipexctl.project.git_state import GitReader
    from ipexctl.run.checkpoints import resume_run
    from ipexctl.run.outcome.run_inputs import Inputs
    from ipexctl.run.watch.session import Session
    from ipexctl.run.watch.start_request import Orders


def start_and_follow_run(
    target: Target,
    options: RunOptions,
    view: View,
    interrupts: Interrupts,
    script: Script | None = None,
) -> RunResult | DetachedRun:
    """Run a script. Raise IpexctlError if no rank was started; otherwise the result says how it
    ended. `script`: one of ipexctl's own, instead of the one that the options name."""
    trace.mark("imported")
    options = check_run_options(options)
    target = start_keepers.add_spares(target, options)
    fleet = Fleet(target, options.root)
    choice = read_line_choice(options, fleet.hosts)
    with trace.span("script"):
        script = script or read_script(options)
    run_id, datasets = new_run_id(), dict[str, tuple[Held, ...]]()

    def prepare(host: Host) -> PlannedHost:
        return prepare_host(fleet, host, options, script, run_id, datasets)

    with fleet:
        spares = start_keepers.select_spares(options, fleet.hosts)
        connecting = start_in_thread(
            lambda: call_every_host(fleet, prepare, typed=script.typed, spares=spares)
        )
        with trace.span("project"):  # while the hosts start Python
            files = script.read_files(_delay_questions(connecting, options), target.note)
        painter = Painter(view, target.note, choice)
        painter.notifier = EventNotifier(
            target, options.notify, options.root, options.name, painter.note
        )
        run = _Run(fleet, options, script, files, painter, interrupts, run_id, datasets, spares)
        try:
            return run.execute_run(choice, connecting)
        finally:
            if run.git:
                run.git.end()
            painter.close()


def _delay_questions(connecting: Callable[[], object], options: RunOptions) -> RunOptions:
    """Delay questions to the user until the hosts are connected, which may ask for a password."""

    def confirm(question: str) -> bool:
        connecting()
        return options.confirm(question)

    asks = options.confirm not in (send_agreed.answer_yes, send_agreed.answer_no)
    return replace(options, confirm=confirm) if asks else options


@dataclass
class _Run:
    """One run, from connected hosts to its result."""

    fleet: Fleet
    options: RunOptions
    script: Script
    files: send_project.Snapshot | send_project.InPlace
    painter: Painter
    interrupts: Interrupts
    run_id: str
    held: dict[str, tuple[Held, ...]]  # datasets of each host
    spares: Sequence[Host]
    limits: PruneLimits = field(default_factory=lambda: read_limits(load_settings()))
    findings: Sequence[tuple[str, str, str]] = ()  # findings of the preflight
    git: GitReader | None = None  # reads the state of the project
    asked_name: str = ""  # of --name, if another run has it

    def execute_run(
        self, choice: Choice, connecting: Callable[[], dict[Host, PlannedHost]]
    ) -> RunResult | DetachedRun:
        """Plan the run, send the project, start the ranks and follow them to the result."""
        agents = self.fleet.agents
        for note in (*self.script.notes, *self.files.notes):
            self.painter.note(note)
        if self.script.env and self.script.env.newer:
            self._changed_requirements()
        from ipexctl.project import git_state

        self.git = git_state.start_git_reader(self.files, self.options)
        threading.Thread(target=_import_late_modules, args=(self.fleet,), daemon=True).start()
        with trace.span("hosts"):
            nodes = connecting()
        self._take_free_name()
        spares = [host for host in self.spares if host in nodes]
        for text in (*other_pythons(agents.values()), *note_borrowed_envs(nodes.values())):
            self.painter.note(text)
        with trace.span("plan"):
            nodes = self._choose_network(nodes)
            first = self._add_shares([node for host, node in nodes.items() if host not in spares])
            plan = self._plan_run(first, self.options)
            wide = plan_candidates(plan, first, self.options, self._plan_run)
        for dataset in self.held[plan.hosts[0].host] if self.options.data else ():
            self.painter.note(f"dataset {dataset.name}: {dataset}")
        line_filter.require_selected_ranks(choice, plan)
        by_name = {host.name: host for host in agents}
        used = [by_name[host.host] for host in wide.hosts]
        count = len(plan.hosts), len({*used, *spares}) - len(plan.hosts)
        start_keepers.review_restarts(self.options, self.script, *count, self.painter.note)
        with trace.span("preflight"):
            self._run_preflight(wide, {host: nodes[host] for host in used})
        resumed = self._find_checkpoint()
        self._show_plan(plan)
        if self.options.detach:  # the user may be away when it ends
            self._prune_old_runs(used)
        with trace.span("sync"):
            sent = call_every_host(
                self.fleet, self._send_project, [*used, *spares], typed=self.script.typed
            )
        amount = sum(one.bytes for one in sent.values())
        noted = self.files.ignored or trace.took_here()["sync"] >= NOTED_SYNC
        if self.painter.view.detailed or (amount and noted):
            self.painter.note(self.files.told(amount))
        if resumed:
            self._lay_out_checkpoint(resumed, nodes, sent)
        records = AttemptFolders(None if self.options.trial else Path.cwd(), name=self.options.name)
        if not self.options.trial:
            remember_typed_run(self.run_id, self.script.typed, [host.name for host in spares])
        keys = self._make_link_keys(wide, spares)
        orders = self._compose_orders(plan, wide, keys, nodes, resumed)
        if self.options.kept:
            orders = self._prepare_keepers(orders, [nodes[host] for host in (*used, *spares)], sent)
        with trace.span("run"):
            hosts = {host.name: (agents[host], sent[host].cwd) for host in used}
            result = self._follow_attempts(orders, hosts, records)
        return self._finish_run(result, nodes, sent, records)

    def _prepare_keepers(
        self,
        orders: Orders,
        nodes: Sequence[PlannedHost],
        sent: Mapping[Host, send_project.Sent],
    ) -> Orders:
        work = {host.name: (copy.cwd, copy.mark) for host, copy in sent.items()}
        planned = self._add_shares(nodes)
        return start_keepers.prepare_keepers(self.fleet, orders, planned, work, self._plan_run)

    def _finish_run(
        self,
        result: RunResult | DetachedRun,
        nodes: Mapping[Host, PlannedHost],
        sent: Mapping[Host, send_project.Sent],
        records: AttemptFolders,
    ) -> RunResult | DetachedRun:
        """Show and record how the run ended, fetch files, and clean up on the hosts."""
        if isinstance(result, DetachedRun):
            root, target = self.fleet.root, self.fleet.target
            note_detached_run(self.painter, result, target, root, self.options)
            return result
        if not self.options.trial:
            self.fleet.remember(_failed_states(result), "run")
        local = self._fetch_kept_files(result, records.find_folder(result.run_id), sent)
        retry = self._compose_retry(result, list(nodes.values()))
        if result.exit_code and self.options.kept:
            from ipexctl.run.jobs.start_again import compose_again_line_of

            retry = compose_again_line_of(self.fleet, self.run_id) or retry
        left_out = self._find_left_out(result, list(nodes.values()), sent)
        if left_out and left_out.starts_again:
            retry = spell_hint(left_out.fix, self.fleet.target, self.fleet.root)
        result = replace(result, kept=local, again=retry, left_out=left_out).spelled(
            lambda name: suggest_command(self.fleet.target, name, self.fleet.root),
            lambda text: spell_hint(text, self.fleet.target, self.fleet.root),
        )
        records.keep_result(result)
        if not self.options.trial:
            self._record_result(result, sent)
        self.painter.result(result)
        return result

    def _take_free_name(self) -> None:
        """Give the run another name if an active one has its name: names are for commands."""
        if not self.options.name:
            return
        from ipexctl.run.jobs.ps import gather_runs

        listed = gather_runs(self.fleet, newest=1, hosts=list(self.fleet.agents))
        name, taken = free_name(self.options.name, listed)
        if taken:
            whose = f"active run {taken.id} of {describe_owner(taken)}"
            self.painter.note(f"this run is called {name}: {self.options.name} is {whose}")
            self.asked_name, self.options = self.options.name, replace(self.options, name=name)
            if self.painter.notifier:
                self.painter.notifier.name = name

    def _changed_requirements(self) -> None:
        from ipexctl.install.requirement_files import changed_note

        if note := changed_note(self.fleet.target, self.script.env, self.fleet.root):
            self.painter.note(note)

    def _plan_run(self, nodes: Sequence[PlannedHost], options: RunOptions) -> LaunchPlan:
        return make_run_plan(nodes, options, self.script, self.held, self.run_id)

    def _show_plan(self, plan: LaunchPlan) -> None:
        """Show the plan; on a terminal, a place in the queue is all that is said with -d."""
        if not (self.options.queue and self.options.detach) or self.painter.as_data:
            self.painter.planned(self.run_id, plan)

    def _lay_out_checkpoint(
        self,
        resumed: resume_run.Resumed,
        nodes: Mapping[Host, PlannedHost],
        sent: Mapping[Host, send_project.Sent],
    ) -> None:
        from ipexctl.run.checkpoints import resume_run

        folders = {host: sent[host].cwd for host in _choose_host_per_folder(sent)}
        with trace.span("resume"):
            lay_out = resume_run.prepare_checkpoint_layout(
                self.fleet, resumed, nodes, folders, self.options.checkpoints
            )
            call_every_host(self.fleet, lay_out, list(folders), typed=self.script.typed)

    def _choose_network(self, nodes: Mapping[Host, PlannedHost]) -> dict[Host, PlannedHost]:
        arguments = (self.options, self.script, self.painter.note)
        return {
            node.host: node
            for node in choose_run_network(self.fleet, [*nodes.values()], *arguments)[0]
        }

    def _add_shares(self, nodes: Sequence[PlannedHost]) -> Sequence[PlannedHost]:
        return add_shares(self.fleet, nodes, self.options, self.script, self.painter.note)

    def _follow_attempts(
        self, orders: Orders, hosts: Mapping[str, tuple[Agent, str]], records: AttemptFolders
    ) -> RunResult | DetachedRun:
        session = None if self.options.queue else self._make_session(orders.plan, records)
        if session and not self.options.kept:
            return session.start_run(orders, hosts)
        from ipexctl.run.follow_attempts import Attempts

        attempts = Attempts(
            self.fleet,
            self.run_id,
            self.painter,
            self.interrupts,
            hosts,
            records,
            leaves=self.options.detach,
        )
        with attempts.watch_returned_hosts():
            first = session.start_run(orders, hosts) if session else None
            return attempts.follow(first) if first else attempts.follow_queued()

    def _run_preflight(self, plan: LaunchPlan, nodes: Mapping[Host, PlannedHost]) -> None:
        """Report what would break the run before anything is sent."""
        from ipexctl.run import preflight

        def note(text: str) -> None:
            self.painter.note(spell_hint(text, self.fleet.target, self.fleet.root))

        flight = preflight.Flight(self.fleet, nodes, self.options, plan)
        preflight.review_script(
            self.script.argv,
            self.script.sources,
            plan,
            self.files,
            nodes.values(),
            note,
            force=self.options.force,
            may_install=self.options.may_install,
        )
        if not self.options.no_sync:
            from ipexctl.run.local_arguments import note_local_arguments, note_misspelt_files

            for text in note_misspelt_files(self.script):
                note(f"preflight: {text}")
            for text in note_local_arguments(self.fleet, nodes, self.script):
                note(f"preflight: {text}")
        self.findings = preflight.run_preflight_checks(flight, note)

    def _send_project(self, host: Host) -> send_project.Sent:
        agent, root = self.fleet.agents[host], self.fleet.root_of(host)
        return self.files.bring(agent, root, self.run_id, self.limits.copies)

    def _make_session(self, plan: LaunchPlan, records: AttemptFolders) -> Session:
        from ipexctl.run.jobs.ps import make_verdict_reader
        from ipexctl.run.watch.host_link import HostLinks, WatchedRun
        from ipexctl.run.watch.run_output import RunOutput
        from ipexctl.run.watch.session import Session

        fleet, record = self.fleet, records.make(self.run_id, plan)
        watched = WatchedRun(plan, self.run_id, self.options, hub=plan.hosts[0].host)
        return Session(
            watched,
            HostLinks(watched, self._reconnect_host),
            RunOutput(watched, self.painter, record),
            self.interrupts,
            noted=make_verdict_reader(
                fleet, self.run_id, {host.name: host for host in fleet.agents}
            ),
        )

    def _find_checkpoint(self) -> resume_run.Resumed | None:
        if not self.options.resume:
            return None
        from ipexctl.run.checkpoints import resume_run

        resumed = resume_run.find_checkpoint(self.fleet, self.options.resume)
        for note in resumed.notes:
            self.painter.note(note)
        return resumed

    def _compose_orders(
        self,
        plan: LaunchPlan,
        wide: LaunchPlan,
        keys: Keys,
        nodes: Mapping[Host, PlannedHost],
        resumed: resume_run.Resumed | None,
    ) -> Orders:
        from ipexctl.run.watch.start_request import Orders

        return Orders(
            plan,
            self.run_id,
            self.options,
            about=self._describe_run(plan),
            before=trace.took_here(),
            reached={host.name: host for host in self.fleet.agents},
            data={
                name: [f"data/{item.name}/{item.version}" for item in datasets if item.version]
                for name, datasets in self.held.items()
            },
            keys=keys,
            resumed=resumed.checkpoint.name if resumed else "",
            inputs=self._collect_inputs(wide, nodes),
        )

    def _collect_inputs(self, plan: LaunchPlan, nodes: Mapping[Host, PlannedHost]) -> Inputs:
        from ipexctl.run.outcome import run_inputs

        sent = self.files.bundle.tree if isinstance(self.files, send_project.Snapshot) else None
        data = {dataset.name: dataset.version for dataset in self.held.get(plan.hosts[0].host, ())}
        return run_inputs.collect_run_inputs(
            plan.hosts, nodes.values(), sent, data, self.findings, self._git_state()
        )

    def _git_state(self) -> GitState | None:
        return self.git.state() if self.git else None

    def _reconnect_host(self, name: str) -> Agent:
        return self.fleet.reconnect(next(host for host in self.fleet.agents if host.name == name))

    def _make_link_keys(self, plan: LaunchPlan, spares: Sequence[Host]) -> Keys:
        if len(plan.hosts) + len(spares) == 1:
            return {}
        from ipexctl.blobs.tls_keys import make_keys

        return make_keys()

    def _describe_run(self, plan: LaunchPlan) -> RunAbout:
        folder, git = self.script.project.folder, self._git_state()
        return RunAbout(
            name=self.options.name,
            asked=self.asked_name,
            hosts=tuple(plan.candidates) or tuple(host.host for host in plan.hosts),
            ranks=plan.world_size,
            command=quoting.quote(plan.argv),
            by=project_of(folder).by,
            folder=str(folder),
            typed_in=str(Path.cwd()),
            cwd=self.script.project.cwd,
            commit=git.commit if git else "",
            version=__version__,
        )

    def _record_result(self, result: RunResult, sent: Mapping[Host, send_project.Sent]) -> None:
        """Record the result in the journals on the hosts, then apply the limits to old runs."""
        ending = {name: getattr(result, name) for name in ("exit_code", "ended_by", "cause")}
        request = {"run_id": result.run_id, "result": ending}
        took_part = {end.host for end in result.plan.hosts}

        def one(host: Host) -> None:
            message = {**request, "known_as": host.name, "root": self.fleet.root_of(host)}
            if host.name in took_part:  # whether it took part in the last attempt
                self.fleet.agents[host].call("run.run_watch.conclude", message, timeout=CONCLUDED)

        reachable = [host for host in self.fleet.agents if result.is_reachable(host.name)]
        distinct = _choose_host_per_folder({host: sent[host] for host in reachable if host in sent})
        self._prune_old_runs(distinct, one, [host for host in reachable if host not in distinct])

    def _prune_old_runs(
        self,
        hosts: Sequence[Host],
        first: Callable[[Host], None] = lambda host: None,
        others: Sequence[Host] = (),
    ) -> None:
        from ipexctl.remove import prune

        with trace.span("prune"), suppress(KeyboardInterrupt):
            if pruned := prune.after_run(self.fleet, hosts, self.limits, first, others):
                self.painter.note(pruned)

    def _compose_retry(self, result: RunResult, nodes: Sequence[PlannedHost]) -> str:
        lost = [node.host.name for node in nodes if node.host.name in result.lost]
        remaining = [node for node in nodes if node.host.name not in lost]
        if not lost or not remaining:
            typed = move_refused_first(self.script.typed, result.last_words)
            return retry_command.compose_retry_command(typed, (), None)
        fits = fit_rank_count(remaining, make_run_request(self.options, self.script))
        fewer = None if fits == self.options.n else fits
        return retry_command.compose_retry_command(self.script.typed, lost, fewer)

    def _find_left_out(
        self,
        result: RunResult,
        nodes: Sequence[PlannedHost],
        sent: Mapping[Host, send_project.Sent],
    ) -> LeftOut | None:
        if result.first is None or not isinstance(self.files, send_project.Snapshot):
            return None
        from ipexctl.run import local_arguments as given

        data = given.data_folder(nodes)
        if missing := given.find_missing_argument(result.last_words, self.script, data):
            return missing
        name, words = result.first.host, [*map(without_colour, result.tail)]
        start = next(copy.cwd for host, copy in sent.items() if host.name == name)
        return send_project.left_out_file(self.files, start, words, environment())

    def _fetch_kept_files(
        self, result: RunResult, record: RunFolder, sent: Mapping[Host, send_project.Sent]
    ) -> LocalRunFolder:
        """Return what this machine keeps of the run: the logs, and the requested files."""
        local = record.describe_folder()
        typed = (*self.options.fetch, *self.options.outputs)
        if not typed:
            return local
        if not record.folder:
            return replace(local, outputs=("outputs: not fetched, as nothing is kept here",))
        reachable = {host: copy for host, copy in sent.items() if result.is_reachable(host.name)}
        agents = {host: self.fleet.agents[host] for host in _choose_host_per_folder(reachable)}
        roots = {host.name: self.fleet.root_of(host) for host in agents}
        patterns = fetch_outputs.resolve_patterns(self.script.project.cwd, typed)
        first, limit = result.plan.hosts[0].host, self.options.fetch_limit << 30
        merge, dest = self.options.merge, _dest_folder(self.options)
        wish = fetch_outputs.Wish(patterns, self.run_id, roots, first, limit, merge, dest)
        try:
            fetched = fetch_outputs.fetch_outputs(agents, wish, record.folder, self.painter.note)
            outputs = fetched.words
        except KeyboardInterrupt:
            outputs = ("outputs: interrupted; the missing files are on the hosts",)
        return replace(local, outputs=outputs)


def _import_late_modules(fleet: Fleet) -> None:
    """Import what is needed once the hosts have answered, while they start Python. Before that it
    would delay the logins (40 ms of a launch on two cores)."""
    if not fleet.asked.wait(LATEST_LOGIN):
        return
    from ipexctl.run import preflight  # noqa: F401
    from ipexctl.run.watch import session  # noqa: F401

    migration_rules()
    if len(fleet.hosts.hosts) > 1:
        import cryptography.x509  # noqa: F401  tls_keys.py needs it


def _choose_host_per_folder(sent: Mapping[Host, send_project.Sent]) -> list[Host]:
    """Return hosts, but only the first of those that share a home, and so the run's folder."""
    first: dict[str, Host] = {}
    for host, copy in sent.items():
        first.setdefault(copy.mark or f"of {host.name}", host)
    return list(first.values())


def check_run_options(options: RunOptions) -> RunOptions:
    """Return the options; raise InputError for values that no run can have."""
    for option, value, allowed in (
        ("--stall-action", options.stall_action, STALL_ACTIONS),
        ("--without-checkpoint", options.without_checkpoint, WITHOUT_CHECKPOINT),
        ("--compress", options.compress, COMPRESSIONS),
    ):
        if value not in allowed:
            raise unknown_value(option, value, allowed, meant="stop" if value == "kill" else "")
    start_keepers.check_restart_options(options)
    checked_name(options.name)
    if options.checkpoints or options.resume or options.resume_arg:
        from ipexctl.run.checkpoints import resume_run

        resume_run.check_resume_options(options)
    lives_on = options.lives_on or options.kept
    return replace(options, data=checked_names(options.data), lives_on=lives_on)


def read_line_choice(options: RunOptions, hosts: Inventory) -> Choice:
    """Return which lines are shown. Raise InputError for that, and for files to be fetched."""
    choice = line_filter.read_line_filter(
        options, hosts, last_states(hosts) if options.show_hosts else {}
    )
    fetch_outputs.check_patterns("--fetch", options.fetch)
    fetch_outputs.check_patterns("--outputs", options.outputs)
    fetch_outputs.check_dest(_dest_folder(options))
    for option, value in (("--merge", options.merge), ("-o DIR", options.dest)):
        if value and not (options.fetch or options.outputs):
            raise InputError(
                f"{option} needs --fetch or --outputs",
                hint=f"--outputs FOLDER {option}",
                slug="option-needs-fetch",
            )
    return choice


def _dest_folder(options: RunOptions) -> Path | None:
    return Path(options.dest) if options.dest else None


def _failed_states(result: RunResult) -> dict[str, str]:
    """Return the states for @last-failed: where the first rank failed, and which host was lost."""
    states = {end.host: "unreachable" if end.host in result.lost else "ok" for end in result.hosts}
    return {**states, result.first.host: "failed"} if result.first else states
