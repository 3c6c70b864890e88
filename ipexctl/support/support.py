"""support: one file about this installation, and a run, that can be shown to others."""

from __future__ import annotations

import io
import json
import platform
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from ipexctl import __version__
from ipexctl.errors import EXIT_OK, InputError, IpexctlError
from ipexctl.inventory.inventory import Inventory
from ipexctl.local import settings
from ipexctl.local.atomic_file import write_atomic
from ipexctl.local.environment import environment
from ipexctl.local.last_outcome import last_states
from ipexctl.local.project_lock import LOCK_FILE, lock_folder, project_of, read_lock
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target, inventory
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.jobs.logs import Wanted, logs
from ipexctl.run.jobs.ps import find
from ipexctl.run.outcome.listed_runs import Run
from ipexctl.support.redaction import Redactor, secret_values

SCHEMA = 1
LINES = 200  # of each rank's output


@dataclass(frozen=True)
class Bundle:
    """`files`: what is in it, each with a few words."""

    path: Path
    bytes: int
    files: tuple[tuple[str, str], ...]
    exit_code: int = EXIT_OK


def support(target: Target, run: str = "", root: str = ROOT, *, output: bool = False) -> Bundle:
    """`output`: with the last lines of the run's ranks. A part that cannot be read is its error."""
    redactor = Redactor(secrets=secret_values(environment()), homes=_homes())
    hosts = _hosts(target, redactor)
    _alias_person(redactor, project_of(Path.cwd()).by)
    redactor.hosts(platform.node())
    parts: dict[str, tuple[str, Any]] = {
        "versions.json": ("versions of ipexctl, Python, libraries and system", _versions()),
        "settings.json": ("settings, as ipexctl config shows them", _or_error(_settings)),
        "stack.json": (f"what {LOCK_FILE} installs", _or_error(_stack)),
        "hosts.json": ("hosts, under aliases", hosts),
    }
    if run:
        parts["run.json"] = ("the run, as its hosts recorded it", _run(target, run, root, redactor))
    if run and output:
        parts |= dict(_output(target, run, root))
    texts = {name: _text(value, redactor) for name, (_, value) in parts.items()}
    path = Path.cwd() / f"ipexctl-support-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    data = _archive(texts)
    write_atomic(path, data)
    return Bundle(path, len(data), tuple((name, about) for name, (about, _) in parts.items()))


def _homes() -> Iterator[str]:
    with suppress(RuntimeError):
        yield str(Path.home())
        yield str(Path.home().resolve())


def _alias_person(redactor: Redactor, by: str) -> None:
    """`by`: USER@MACHINE."""
    user, _, machine = by.partition("@")
    redactor.users(user)
    redactor.hosts(machine)


def _or_error(read: Callable[[], Any]) -> Any:
    """What is broken is why someone writes a bundle."""
    try:
        return read()
    except IpexctlError as e:
        return {"error": {"what": e.what, "why": e.why}}


def _versions() -> dict[str, Any]:
    needed = [text for text in metadata.requires("ipexctl") or () if "extra ==" not in text]
    found = {}
    for name in (re.split(r"[^\w.-]", text)[0] for text in needed):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return {
        "schema_version": SCHEMA,
        "ipexctl": __version__,
        "python": sys.version,
        "libraries": [f"{name} {version}" for name, version in sorted(found.items())],
        "system": platform.platform(),
        "distribution": _distribution(),
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:  # macOS
        return ""


def _settings() -> Any:
    return settings.document(settings.load())


def _stack() -> dict[str, Any] | None:
    lock = read_lock(lock_folder() / LOCK_FILE)
    return None if lock is None else {
        "row": lock.row, "torch": lock.torch, "mpi": lock.mpi, "python": lock.python,
        "platform": lock.platform, "environment": lock.key, "asked_for": lock.requirements,
        "packages": [f"{p.name} {p.version} ({p.index or 'unknown'})" for p in lock.packages],
    }  # fmt: skip


def _hosts(target: Target, redactor: Redactor) -> Any:
    try:
        found = inventory(target)
    except IpexctlError as e:
        return {"error": {"what": e.what, "why": e.why}}
    for host in found.hosts:
        redactor.hosts(host.name)
        redactor.addresses(host.address)
        redactor.users(host.user)
    return {"hosts": _host_rows(found), "last_command": _last(found)}


def _host_rows(found: Inventory) -> list[dict[str, Any]]:
    """Neither groups nor variables: ipexctl does not know what they mean."""
    names = ("name", "address", "port", "user", "slots", "python", "nic", "root", "local")
    return [{name: getattr(host, name) for name in names} for host in found.hosts]


def _last(found: Inventory) -> dict[str, list[str] | None]:
    states = last_states(found)
    return {key: None if names is None else sorted(names) for key, names in states.items()}


def _run(target: Target, text: str, root: str, redactor: Redactor) -> Any:
    try:
        with Fleet(target, root) as fleet:
            run = find(fleet, text)
    except InputError:  # there is no such run
        raise
    except IpexctlError as e:
        return {"error": {"what": e.what, "why": e.why}}
    redactor.hosts(*run.about.hosts, *(part.target for part in run.seen))
    _alias_person(redactor, run.about.by)
    return asdict(run)


def _output(target: Target, text: str, root: str) -> Iterator[tuple[str, tuple[str, str]]]:
    found: dict[int, list[str]] = {}

    def show(run: Run, host: str, rank: int, texts: Sequence[str]) -> None:
        found.setdefault(rank, []).extend(texts)

    with suppress(IpexctlError):  # run.json says why
        logs(target, Wanted(text, lines=LINES), show, root)
    for rank, lines in sorted(found.items()):
        said = "".join(f"{line}\n" for line in lines[-LINES:])
        yield f"logs/rank{rank:05}.log", (f"last {LINES} lines of rank {rank}", said)


def _text(value: Any, redactor: Redactor) -> str:
    if isinstance(value, str):
        return redactor.text(value)
    return json.dumps(redactor.value(value), indent=2) + "\n"


def _archive(texts: Mapping[str, str]) -> bytes:
    """Without the user, the time and the folder of this machine."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in texts.items():
            member = tarfile.TarInfo(f"ipexctl-support/{name}")
            member.mode, body = 0o600, text.encode("utf-8", "replace")
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return data.getvalue()
