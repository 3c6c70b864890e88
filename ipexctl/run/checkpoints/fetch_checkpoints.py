"""checkpoints, fetch --checkpoint: list and fetch checkpoint copies held by a run's hosts."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from pathlib import Path

from ipexctl.common.checkpoint_reports import PartFiles
from ipexctl.common.files import sync_disk
from ipexctl.errors import HostFailed, InputError, IpexctlError
from ipexctl.machines.agent import Agent
from ipexctl.machines.fleet import SILENCE, Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.jobs.held_checkpoints import gather_checkpoints
from ipexctl.run.jobs.ps import AskedRun, find_run_of_anybody
from ipexctl.run.outcome import listed_checkpoints
from ipexctl.run.outcome.listed_checkpoints import (
    CheckpointPart,
    Holder,
    ListedCheckpoint,
)
from ipexctl.run.watch import fetch_outputs
from ipexctl.run.watch.run_folder import find_run_folder

Row = tuple[str, str, int]  # path below the checkpoint's name, sha256, bytes


@dataclass(frozen=True)
class CheckpointList(AskedRun):
    checkpoints: tuple[ListedCheckpoint, ...]


@dataclass(frozen=True)
class FetchedCheckpoint(AskedRun):
    checkpoint: ListedCheckpoint
    path: Path
    files: int


def list_checkpoints(target: Target, text: str, root: str = ROOT) -> CheckpointList:
    with Fleet(target, root) as fleet:
        run = find_run_of_anybody(fleet, text)
        checkpoints = gather_checkpoints(fleet, run)
        return CheckpointList(run, fleet.recaps(), len(fleet.alive), checkpoints)


def read_part_rows(
    agent: Agent, root: str, run_id: str, holder: Holder, part: CheckpointPart
) -> list[Row]:
    """Return the files of a part, from a host that has it."""
    request = {"root": root, "run_id": run_id, "holder": holder.name, "part": part.sha256}
    done = agent.call("checkpoints.copy_requests.part", request).done
    return done.read(PartFiles).files


def fetch_checkpoint(
    target: Target, text: str, name: str, limit: int, root: str = ROOT, dest: Path | None = None
) -> FetchedCheckpoint:
    """Fetch a complete checkpoint. `name`: its name, or `last`."""
    fetch_outputs.check_dest(dest)
    with Fleet(target, root) as fleet:
        run = find_run_of_anybody(fleet, text)
        chosen = listed_checkpoints.choose_checkpoint(gather_checkpoints(fleet, run), name, run.id)
        if chosen.bytes > limit:
            raise InputError(
                f"{chosen.name} has {chosen.bytes:,} bytes",
                hint="--fetch-limit GB",
                slug="checkpoint-over-limit",
            )
        top = (dest or find_run_folder(Path.cwd(), run.id) / "checkpoints").absolute()
        if why := fetch_outputs.explain_refusal(chosen.name, ("**",)):
            raise HostFailed(
                f"a checkpoint called {chosen.name[:200]} is not taken",
                why=why,
                slug="checkpoint-refused",
            )
        path = _prepare_target(top, chosen.name if chosen.name != "." else "checkpoint")
        budget = fetch_outputs.Budget(limit, fetch_outputs.ENTRIES)
        fresh, hashes = top / f".{secrets.token_hex(8)}.part", dict[str, str]()
        try:
            for part in chosen.parts:
                _fetch_part(fleet, run.id, (chosen, part), (fresh, budget), hashes)
            sync_disk(fresh)
            fresh.rename(path)
        finally:
            if fresh.is_dir():
                shutil.rmtree(fresh)
            fresh.unlink(missing_ok=True)
        return FetchedCheckpoint(run, fleet.recaps(), len(fleet.alive), chosen, path, len(hashes))


def _prepare_target(top: Path, name: str) -> Path:
    """Return the path for a checkpoint below `top`. Raise if it exists or a link leads out."""
    path = top / name
    if not fetch_outputs.is_inside(name) or os.path.lexists(path):
        raise InputError(f"{path} is there already", hint="-o DIR", slug="checkpoint-already-here")
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    real = os.path.realpath(top)
    if os.path.commonpath((real, os.path.realpath(path.parent))) != real:
        raise PermissionError(errno.EPERM, "a link leads out of it", str(path))
    return path


def _fetch_part(
    fleet: Fleet,
    run_id: str,
    source: tuple[ListedCheckpoint, CheckpointPart],
    target: tuple[Path, fetch_outputs.Budget],
    hashes: dict[str, str],
) -> None:
    """Fetch a part from the first of its holders that provides it. Files that differ from those of
    another host go to a separate folder. `hashes`: path -> sha256."""
    (checkpoint, part), (fresh, budget) = source, target
    error: IpexctlError | None = None
    for holder in part.holders:
        host = next(candidate for candidate in fleet.alive if candidate.name == holder.target)
        agent, root = fleet.agents[host], fleet.root_of(host)
        try:
            for place_there, sha, size in read_part_rows(agent, root, run_id, holder, part):
                file = _path_below(place_there, checkpoint.name)
                if hashes.get(file) == sha:
                    continue
                place = f"@{part.host}/{file}" if file in hashes else file
                path = f"{checkpoint.name}/{place}" if place else checkpoint.name
                why = fetch_outputs.explain_refusal(path, ("**",))
                if why or not fetch_outputs.is_inside(path):
                    refused = f"{host.name}: {path[:200]} was not taken"
                    raise HostFailed(refused, why=why, slug="checkpoint-refused")
                if not budget.take(size, 1 + path.count("/")):
                    raise HostFailed(
                        f"{host.name}: {checkpoint.name} is larger than --fetch-limit",
                        slug="too-much-data",
                    )
                request = {"root": root, "run_id": run_id, "holder": holder.name, "sha256": sha}
                _read_part(agent, request, size, fresh / place if place else fresh)
                hashes[place] = sha
        except IpexctlError as e:
            error = e
        else:
            return
    raise error or HostFailed(f"no host has the part of {part.host}", slug="checkpoint-gone")


def _path_below(path: str, name: str) -> str:
    """Return the path below the checkpoint's name; "" if it is the file of that name."""
    if path == name or name == ".":
        return "" if path == name else path
    return path.removeprefix(name + "/")


def _read_part(agent: Agent, request: dict[str, str], size: int, path: Path) -> None:
    """Write a file of a checkpoint part; check its size and hash."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest, remaining = hashlib.sha256(), size
    with path.open("wb") as file:
        number = agent.start("checkpoints.copy_requests.read", request)
        for frame in agent.answers(number, SILENCE, size):
            remaining -= len(frame.body)
            digest.update(frame.body)
            if remaining >= 0:
                file.write(frame.body)
    if remaining or digest.hexdigest() != request["sha256"]:
        raise HostFailed(
            f"{agent.host.name}: {path.name} arrived damaged", slug="checkpoint-corrupt"
        )
