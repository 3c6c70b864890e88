"""run --resume: put the last complete checkpoint of a run on every host before ranks start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ipexctl.blobs.tls_keys import make_keys
from ipexctl.common.addresses import peer_url
from ipexctl.common.port_answers import PortOpened
from ipexctl.errors import InputError
from ipexctl.facts.host_facts import peer_address
from ipexctl.inventory.inventory import Host
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.agent import transfer_time
from ipexctl.machines.fleet import SILENCE, Fleet
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.checkpoints.fetch_checkpoints import Row, read_part_rows
from ipexctl.run.jobs.held_checkpoints import gather_checkpoints
from ipexctl.run.jobs.ps import find_run, read_caller
from ipexctl.run.outcome import listed_checkpoints
from ipexctl.run.outcome.listed_checkpoints import (
    LAST,
    CheckpointPart,
    Holder,
    ListedCheckpoint,
)
from ipexctl.run.outcome.run_choice import describe_foreign
from ipexctl.run.plan.checkpoint_options import patterns_of, resume_words
from ipexctl.run.plan.launch import PlannedHost


@dataclass(frozen=True)
class Resumed:
    run_id: str
    checkpoint: ListedCheckpoint
    files: tuple[tuple[CheckpointPart, tuple[Row, ...]], ...]
    left: tuple[str, ...]  # newer ones, which are not complete
    whose: str = ""  # who started the run and where, if that is not who resumes it

    @property
    def notes(self) -> tuple[str, ...]:
        checkpoint = self.checkpoint
        return (
            f"resuming from {checkpoint.title} of {self.run_id}, on {', '.join(checkpoint.hosts)}",
            *((self.whose,) if self.whose else ()),
            *(f"not used: {text}" for text in self.left),
        )

    def list_host_files(self, host: str) -> list[tuple[str, str, int, int]]:
        """Return the files for a host, with the number of the part: those of all parts; if several
        hosts wrote a path, the host's own comes first."""
        order = sorted(range(len(self.files)), key=lambda n: self.files[n][0].host != host)
        by_path: dict[str, tuple[str, str, int, int]] = {}
        for n in order:
            for path, sha, size in self.files[n][1]:
                by_path.setdefault(path, (path, sha, size, n))
        return list(by_path.values())


def check_resume_options(options: RunOptions) -> None:
    """Raise InputError for options that contradict --resume."""
    patterns_of(options.checkpoints)
    resume_words(options.resume_arg, "")
    if options.resume_arg and not (options.resume or options.restarts):
        raise InputError(
            "--resume-arg needs --resume or --restarts",
            hint="--resume RUN",
            slug="option-needs-resume",
        )
    if options.resume and options.no_sync:
        raise InputError(
            "--resume cannot be combined with --no-sync",
            why="the checkpoint is laid out in the run's folder, which --no-sync does not create",
            slug="options-conflict",
        )


def find_checkpoint(fleet: Fleet, text: str) -> Resumed:
    """Find the checkpoint that --resume names: RUN[:NAME]."""
    run_name, _, name = text.partition(":")
    run = find_run(fleet, run_name)
    listed = gather_checkpoints(fleet, run)
    chosen = listed_checkpoints.choose_checkpoint(listed, name or LAST, run.id)
    hosts = {host.name: host for host in fleet.alive}
    companion = listed_checkpoints.find_companion(listed, chosen)
    if companion:
        parts, members = chosen.parts + companion.parts, chosen.members + companion.members
        laid_out = replace(chosen, parts=parts, members=members)
    else:
        laid_out = chosen
    files = []
    for part in laid_out.parts:
        host = hosts[part.holders[0].target]
        agent, root = fleet.agents[host], fleet.root_of(host)
        files.append((part, tuple(read_part_rows(agent, root, run.id, part.holders[0], part))))
    newer = listed[: listed.index(chosen)]
    unused = tuple(f"{c.title}: {c.why}" for c in newer if not c.is_complete)
    whose = "" if read_caller().has_started(run) else describe_foreign(run)
    return Resumed(run.id, laid_out, tuple(files), unused, whose)


def prepare_checkpoint_layout(
    fleet: Fleet,
    resumed: Resumed,
    nodes: Mapping[Host, PlannedHost],
    folders: Mapping[Host, str],
    checkpoints: str,
) -> Callable[[Host], None]:
    """Return a function that puts the checkpoint into a host's folder in `folders`; files that it
    lacks come from another host."""
    hosts = {host.name: host for host in nodes}
    keys = make_keys()
    urls: dict[Holder, str] = {}
    for part, rows in resumed.files:
        giver = part.holders[0]
        if giver in urls or all(_find_own_copy(part, host) for host in folders):
            continue
        hashes = [sha for p, rows in resumed.files if p.holders[0] == giver for _, sha, _ in rows]
        host = hosts[giver.target]
        done = fleet.call(
            host,
            "checkpoints.copy_requests.serve",
            run_id=resumed.run_id,
            holder=giver.name,
            wanted=hashes,
            keys=dict(keys),
        )
        urls[giver] = peer_url(peer_address(nodes[host].facts), done.read(PortOpened).port)

    def one(host: Host) -> None:
        givers: list[dict[str, object]] = []
        for part, _ in resumed.files:
            if own_copy := _find_own_copy(part, host):
                givers.append({"run_id": resumed.run_id, "holder": own_copy.name})
            else:
                givers.append({"url": urls[part.holders[0]]})
        rows = resumed.list_host_files(host.name)
        request = {
            "root": fleet.root_of(host),
            "work": folders[host],
            "name": ".",
            "members": list(resumed.checkpoint.members),
            "patterns": list(patterns_of(checkpoints)),
            "files": [list(row) for row in rows],
            "givers": givers,
            "keys": dict(keys),
        }
        total = transfer_time(sum(size for _, _, size, _ in rows))
        op = "checkpoints.copy_requests.lay_out"
        fleet.agents[host].call(op, request, timeout=SILENCE, total=total)

    return one


def _find_own_copy(part: CheckpointPart, host: Host) -> Holder | None:
    return next((holder for holder in part.holders if holder.target == host.name), None)
