"""fetch: copy files that ranks left on the hosts to this machine, during the run or after it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ipexctl.base.located_errors import nearest_files
from ipexctl.base.quoting import quote
from ipexctl.common.result_answers import FolderMark, OutputFiles
from ipexctl.errors import EXIT_FAILED, InputError, worst_exit
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.jobs.ps import AskedRun, find_run_of_anybody, map_reporting_hosts
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.watch import fetch_outputs
from ipexctl.run.watch.fetch_outputs import FetchResult, Wish
from ipexctl.run.watch.run_folder import find_run_folder

_PLAIN = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)  # a host's names that are offered


@dataclass(frozen=True)
class FetchReport(AskedRun):
    fetched: FetchResult
    meant: tuple[str, str] = ("", "")  # what was typed and matches nothing, and what is like it

    @property
    def exit_code(self) -> int:
        missing = not self.fetched.whole
        return worst_exit([super().exit_code, EXIT_FAILED * missing])


def check_asked(run: str, patterns: Sequence[str], checkpoint: str) -> None:
    """Raise InputError unless exactly one of the two is given."""
    if bool(patterns) != bool(checkpoint):
        return
    conflict = "a GLOB and --checkpoint cannot be combined"
    raise InputError(
        conflict if patterns else "what to fetch is missing",
        hint=f"ipexctl fetch {quote((run,))} 'out/*.pt'\n"
        f"ipexctl fetch {quote((run,))} --checkpoint last",
        slug="options-conflict" if patterns else "fetch-nothing",
    )


def fetch_files(
    target: Target,
    text: str,
    patterns: Sequence[str],
    limit: int,
    root: str = ROOT,
    *,
    merge: bool = False,
    dest: Path | None = None,
) -> FetchReport:
    """Fetch files. `patterns`: below the folder where ranks started. `merge`: put all hosts' files
    in one folder. `dest`: the folder for the files, or None for one of the run."""
    fetch_outputs.check_patterns("fetch", patterns)
    fetch_outputs.check_dest(dest)
    with Fleet(target, root) as fleet:
        run = find_run_of_anybody(fleet, text)
        hosts, removed = _choose_folder_hosts(fleet, run)
        if not hosts:
            raise InputError(
                f"{run.id} has no files on these hosts",
                why="its folder there was removed, or it ran with --no-sync",
                slug="run-has-no-files",
            )
        first = hosts.get(next(iter(run.about.hosts), ""))
        roots = {host.name: fleet.root_of(host) for host in hosts.values()}
        paths = fetch_outputs.resolve_patterns(run.about.cwd, patterns)
        wish = Wish(
            paths,
            run.first_id,  # all attempts start in one folder
            roots,
            first.name if first else "",
            limit=limit,
            merge=merge,
            dest=dest,
            named=tuple(patterns),
        )
        agents = {host: fleet.agents[host] for host in hosts.values()}
        folder = find_run_folder(Path.cwd(), run.id)
        result = fetch_outputs.fetch_outputs(agents, wish, folder, target.note)
        if removed:
            words = (*result.words, f"removed before: the files of {run.id} on {fold(removed)}")
            without_first = not {*run.about.hosts[:1]}.isdisjoint(removed)
            is_partial = merge or without_first  # the files of rank 0's host are on top
            result = replace(result, words=words, whole=result.whole and not is_partial)
        meant = _find_meant(agents, wish, run.about.cwd) if result.unmatched else ("", "")
        return FetchReport(run, fleet.recaps(), len(fleet.alive), result, meant)


def _find_meant(agents: Mapping[Host, Agent], wish: Wish, cwd: str) -> tuple[str, str]:
    """Return a typed name that no file has, and the file or folder that was probably meant: one of
    that name in a folder, or a similar one."""
    everything = replace(wish, patterns=fetch_outputs.resolve_patterns(cwd, ["**"]))
    lists = fan_out(
        tuple(agents), lambda host: fetch_outputs.list_outputs(agents[host], everything), forks=16
    )
    listed = (answer for answer in lists.values() if isinstance(answer, OutputFiles))
    paths = {posixpath.relpath(path, cwd or ".") for answer in listed for path, _ in answer.files}
    paths |= {parent for path in paths if (parent := posixpath.dirname(path))}
    plain = sorted(filter(_PLAIN.fullmatch, paths))
    for name in wish.named or ():
        deeper = [path for path in plain if path.endswith(f"/{name}")]
        similar = nearest_files(name, plain)
        suffix = posixpath.splitext(name)[1]
        similar.sort(key=lambda path: posixpath.splitext(path)[1] != suffix)
        if deeper or similar:
            return name, [*deeper, *similar][0]
    return "", ""


def _choose_folder_hosts(fleet: Fleet, run: ListedRun) -> tuple[dict[str, Host], list[str]]:
    """Return hosts that have the run's folder, by their names in the run; if several share it, the
    first. Also return the names of hosts that answer and do not have it, or nothing of the run."""

    def look_on(host: Host) -> str:
        answer = fleet.call(host, "run_files.result_files.look", run_id=run.first_id)
        return answer.read(FolderMark).mark

    hosts = map_reporting_hosts(fleet, run)
    marks: Mapping[Host, str] = fleet.map_hosts(look_on, list(hosts.values()))
    first: dict[str, str] = {}
    removed = [name for name, host in hosts.items() if marks.get(host) == ""]
    removed += run.removed_from(host.name for host in fleet.alive)
    for name in sorted(hosts, key=[*run.about.hosts, *hosts].index):
        if mark := marks.get(hosts[name]):
            first.setdefault(mark, name)
    return {name: hosts[name] for name in first.values()}, removed
