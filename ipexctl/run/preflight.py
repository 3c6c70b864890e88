"""Preflight: report before ranks start what could break the run.

Most of it is in facts that are known already. Connections between hosts are tested once; for some
minutes, the result holds for the same hosts since their boot with the same environments.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ipexctl.base import quoting
from ipexctl.base.host_outcome import HostDown
from ipexctl.base.retry_command import with_force
from ipexctl.common.port_answers import PortOpened
from ipexctl.doctor.doctor import ConnectedHost, connect_all, with_options
from ipexctl.doctor.report.finding import Finding
from ipexctl.errors import MissingPackages
from ipexctl.facts.reachability_facts import Peer
from ipexctl.inventory.inventory import Host
from ipexctl.local.bounded_read import read_prefix
from ipexctl.local.environment import environment
from ipexctl.local.import_roots import module_path
from ipexctl.local.memory import Memory, is_newer
from ipexctl.local.run_options import RunOptions
from ipexctl.local.shipped_tables import migration_rules, stack_rows
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.project.send_project import (
    InPlace,
    Snapshot,
    import_places,
    why_left_out,
    why_refused,
)
from ipexctl.quick_dataclass import dataclass
from ipexctl.run import preflight_rules as core
from ipexctl.run.plan.launch import LaunchPlan, PlannedHost
from ipexctl.run.plan.tuning_variables import ROOTS_WHY
from ipexctl.run.preflight_rules import Judged
from ipexctl.run.script.context import HostEnvironment, LocalPath, ProjectFiles
from ipexctl.run.script.review import (
    Imports,
    Review,
    install_line,
    is_known_package,
    note_missing,
)
from ipexctl.run.script_files.script_sources import module_places
from ipexctl.user_code.source import PythonSource

MEMORY = Memory("preflight", 50, in_cache=True)  # by marks of sets of hosts
# modules of this Python, and of older and newer ones: the hosts' version does not matter here
STDLIB = sys.stdlib_module_names | {"tomllib", "annotationlib", "compression", "distutils", "imp"}
Note = Callable[[str], None]


@dataclass(frozen=True)
class Flight:
    """The hosts of a run that is about to start."""

    fleet: Fleet
    nodes: Mapping[Host, PlannedHost]
    options: RunOptions
    plan: LaunchPlan | None = None

    @property
    def tests_connections(self) -> bool:
        """Whether to test connections between hosts; with --ports, only those need to be open."""
        return self.options.ports is None


def run_preflight_checks(flight: Flight, note: Note) -> list[tuple[str, str, str]]:
    """Report and return findings: id, hosts, text. Raise RunFailed for findings that would break
    the run, unless forced."""
    facts = [node.facts for node in flight.nodes.values()]
    if plan := flight.plan:
        queued = flight.options.queue
        facts = [core.keep_competing_runs(f, plan, queued=queued) for f in facts]
    prefixes = {node.host.name: node.prepared.prefix for node in flight.nodes.values()}
    mark = core.preflight_mark(facts, prefixes)
    noted_at, noted_before = _recall_warnings(mark)
    peers = (
        _try_peers(flight)
        if noted_before is None and flight.tests_connections and len(facts) > 1
        else ()
    )
    judged = core.judge_preflight(
        facts, prefixes, peers=peers, rows=stack_rows(), lives_on=flight.options.lives_on
    )
    target, root = flight.fleet.target, flight.fleet.root
    groups = (judged.blockers, judged.warnings)
    judged = Judged(*(with_options(findings, target, root) for findings in groups))
    if judged.blockers and not flight.options.force:
        raise core.make_refusal(judged.blockers, with_force(flight.options.typed))
    noted = _note_warnings(judged, noted_before or [], note)
    if flight.tests_connections and not judged.among_hosts:
        MEMORY.add({mark: {"at": noted_at or time.time(), "told": noted}})
    return core.fold_findings((*judged.blockers, *judged.warnings))


def review_script(
    argv: Sequence[str],
    sources: Sequence[PythonSource],
    plan: LaunchPlan,
    files: Snapshot | InPlace,
    nodes: Iterable[PlannedHost],
    note: Note,
    *,
    force: bool = False,
    may_install: bool = False,
) -> None:
    """Warn about parts of the script and its arguments that do not fit the hosts. Raise InputError
    for a syntax error, unless forced; with `may_install` MissingPackages."""
    if isinstance(files, InPlace):
        return
    project, sent = files.project, {file.path for file in files.bundle.tree.files}
    variables = {
        name
        for host in plan.hosts
        for name, _ in (*host.env, *host.rank_env)
        if dict(host.reasons).get(name) != ROOTS_WHY  # those files are known
    }
    module = argv[0] == "-m"
    sent_sources = [source for source in sources if source.path in sent]
    beside = project.cwd if module else posixpath.dirname(sources[0].path) if sources else ""
    nodes = tuple(nodes)
    roots = {node.facts.disk.root for node in nodes}
    project_files = ProjectFiles(
        sent,
        project.cwd,
        beside,
        data=f"{roots.pop()}/data" if len(roots) == 1 else "",
        variables=variables | {*plan.secret},
        kept_here=dict(_find_unsent_imports(files, sent_sources)),
        required=_required_packages(project.folder),
    )
    counts = {len(host.ranks) for host in plan.hosts}
    review = Review(
        sent_sources,
        argv[1:] if module else argv,
        [_host_environment(node) for node in nodes],
        project_files,
        rules=migration_rules(),
        ranks_per_host=counts.pop() if len(counts) == 1 else 0,
    )
    if not force:
        review.check_syntax()
    imports = Imports(review.sources, review.hosts, project_files, review.rules)
    if missing := imports.find_missing() if may_install else []:
        raise MissingPackages(
            note_missing(missing, project_files).text,
            line=install_line(missing, project_files),
            known=all(map(is_known_package, missing)),
        )
    local = {name: path for _, name, _ in review.named() if (path := _find_local_path(files, name))}
    for line in replace(review, files=replace(project_files, local=local)).notes():
        note(f"preflight: {line}")


_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*")


def _required_packages(folder: Path) -> frozenset[str]:
    """Return the names at the beginning of the lines of the project's requirements.txt."""
    with suppress(OSError):
        text = read_prefix(folder / "requirements.txt", 1 << 16).decode("utf-8", "replace")
        lines = (_PACKAGE.match(line) for line in text.splitlines())
        return frozenset(match[0].lower().replace("_", "-") for match in lines if match)
    return frozenset()


def _find_local_path(files: Snapshot, name: str) -> LocalPath | None:
    """Return the path that a name means, relative to where ranks start or the command was typed."""
    project = files.project
    places = (os.path.normpath(place / name) for place in (project.start, Path.cwd()))
    path = next(filter(os.path.exists, places), "")
    if not path:
        return None
    shown = name if posixpath.isabs(name) else os.path.relpath(path)
    if project.folder in Path(path).parents:
        relative = Path(path).relative_to(project.folder).as_posix()
        return LocalPath(shown, why_left_out(files, relative, environment())[0])
    common = Path(os.path.commonpath((project.folder, path)))
    may_init = not project.git and not why_refused(common)
    command = quoting.quote(("git", "init", str(common))) if may_init else ""
    return LocalPath(shown, f"only {project.folder} is sent", command)


def _find_unsent_imports(
    files: Snapshot, sources: Sequence[PythonSource]
) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield imports of project modules that are not sent: (file and line, why and what to do)."""
    folder, tree, tops = files.project.folder, files.bundle.tree, import_places(files.project)
    sent = {*tree.folders, *(file.path for file in tree.files)}
    imports = [(source.path, imported) for source in sources for imported in source.imports]
    for importing, imported in imports:
        for place in module_places(imported, importing, tops) if imported.sure else ():
            if not sent.isdisjoint((place, f"{place}.py", f"{place}/__init__.py")):
                continue
            path = module_path(folder, place)
            if path and os.path.relpath(os.path.realpath(folder / path), folder) not in sent:
                why = "; ".join(filter(None, why_left_out(files, path, environment())))
                yield (importing, imported.line), why
                break


def _host_environment(node: PlannedHost) -> HostEnvironment:
    prepared, facts = node.prepared, node.facts
    complete = prepared.modules is not None and not prepared.borrowed
    modules = STDLIB.union(prepared.modules or ()) if complete else None
    route = bool(facts.net.default_nic)
    software = facts.software.used if facts.software else None
    version = software.python.split(".") if software else ()
    python = tuple(int(number) for number in version if number.isdecimal())
    return HostEnvironment(facts.host, dict(prepared.packages), modules, route, python)


def _note_warnings(judged: Judged, noted_before: Sequence[str], note: Note) -> list[str]:
    """Report warnings; those that were reported a moment ago are only named."""
    for finding in judged.blockers:
        note(f"preflight: {core.findings_table([finding])[0]} (--force)")
    new = [f for f in judged.warnings if _finding_key(f) not in noted_before]
    for line in core.findings_table(new):
        note(f"preflight: {line}")
    for line in dict.fromkeys(f"preflight: {check}: {fix}" for check, fix in core.list_fixes(new)):
        note(line)
    noted = [_finding_key(f) for f in judged.warnings if f.id not in core.EACH_TIME]
    if repeated := sorted({f.id for f in judged.warnings if _finding_key(f) in noted_before}):
        note(f"preflight: same findings as before: {', '.join(repeated)} (ipexctl doctor)")
    return noted


def _finding_key(finding: Finding) -> str:
    return f"{finding.id} {finding.host}"


# --- between hosts -------------------------------------------------------------------------------


def _try_peers(flight: Flight) -> tuple[Peer, ...]:
    """Let each host connect to others. If a host is lost meanwhile, the run will notice."""

    agents, forks = flight.fleet.agents, flight.fleet.target.forks

    def listen(host: Host) -> ConnectedHost:
        opened = agents[host].call("connection.listeners.listen").done.read(PortOpened)
        return ConnectedHost(agents[host], flight.nodes[host].facts, opened.port)

    hosts = tuple(flight.nodes)
    outcomes = fan_out(hosts, listen, forks=forks)
    listening = {h.name: s for h, s in outcomes.items() if not isinstance(s, HostDown)}
    results = connect_all(hosts, listening, forks).values()
    for listener in listening.values():
        with suppress(OSError):
            listener.agent.start("connection.listeners.close", {"port": listener.port})
    return tuple(peer for peers in results if not isinstance(peers, HostDown) for peer in peers)


# --- memory --------------------------------------------------------------------------------------


def _recall_warnings(mark: str) -> tuple[float, list[str] | None]:
    """Return the time of the last note on these hosts and its lines; 0 and None without one."""
    entry = MEMORY.get_entry(mark)
    lines = entry.get("told")
    if not is_newer(entry, core.FRESH) or not isinstance(lines, list):
        return 0.0, None
    return entry["at"], [str(line) for line in lines]
