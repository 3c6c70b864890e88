"""support: write one file about this installation, and a run, that can be shown to others."""

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
from importlib import metadata
from pathlib import Path
from typing import Any

from ipexctl import __version__
from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import format_bytes
from ipexctl.common.files import write_atomic
from ipexctl.common.run_inputs import HostInputs
from ipexctl.common.secret_names import is_secret_name
from ipexctl.errors import EXIT_OK, InputError, IpexctlError, printable_text
from ipexctl.inventory.inventory import Inventory
from ipexctl.local import settings
from ipexctl.local.last_outcome import last_states
from ipexctl.local.project_lock import LOCK_FILE, lock_folder, read_lock, this_person
from ipexctl.local.settings_file import setting_kinds
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target, read_inventory
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.material.report_material import Attempt
from ipexctl.report.run_report import known_secrets, read_attempt
from ipexctl.run.jobs.logs import Wanted, show_logs
from ipexctl.run.jobs.ps import find_run
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.support.redaction import Redactor
from ipexctl.terminal.console import print_text, stdout_console

SCHEMA = 1
LINES = 200  # of each rank's output
# the content of a bundle: fields that are not listed here are left out
_HOST = ("name", "address", "port", "user", "slots", "local")
_RUN = ("id", "began", "seconds", "started", "ok", "bytes", "exit_code")
_ABOUT = ("hosts", "ranks", "version")
_VERDICT = ("exit_code", "ended_by", "lost")
_END = ("rank", "host", "code", "signal", "lost", "hints", "at_exit")
_ON_HOST = ("host", "target", "alive", "decided")
_ROW = ("bytes", "unreadable", "kept")
_JOURNAL = ("began", "seconds", "started", "ok", "begun", "format", "stall")
_PLAN = ("world_size", "master_port", "mpi", "ddp", "tuned")
_PLAN_HOST = ("host", "nic", "threads", "quota")
_PLACE = ("rank", "local_rank", "cpus", "node")
_FACTS = (
    "cpu",
    "cores",
    "quota",
    "governors",
    "max_khz",
    "turbo",
    "memory",
    "thp",
    "kernel",
    "load",
    "speed",
)
_OPTION = re.compile(r"(--[A-Za-z][\w-]{0,63})(?:=(.*))?", re.S)
_SMALL_NUMBER = re.compile(r"[-+]?\d{1,6}(\.\d{1,6})?(e[-+]?\d{1,2})?")


@dataclass(frozen=True)
class SupportFile:
    """A bundle. `files`: its content, each with a few words."""

    path: Path
    bytes: int
    files: tuple[tuple[str, str], ...]
    exit_code: int = EXIT_OK


def support(
    target: Target, run: str = "", root: str = ROOT, *, output: bool = False
) -> SupportFile:
    """Write the bundle. `output`: with ranks' last lines. An unreadable part is its error."""
    redactor = Redactor(mask=SecretMask(known_secrets()), homes=_home_folders())
    hosts = _or_error(lambda: _hosts_document(read_inventory(target), redactor))
    _alias_person(redactor, this_person())
    redactor.add_hosts(platform.node())
    parts: dict[str, tuple[str, Any]] = {
        "versions.json": (
            "versions of ipexctl, Python, libraries and system",
            _versions_document(),
        ),
        "settings.json": ("names of settings, numbers and choices", _or_error(_settings_document)),
        "stack.json": (f"what {LOCK_FILE} installs", _or_error(_stack_document)),
        "hosts.json": ("hosts, under aliases", hosts),
    }
    if run:
        parts |= _run_parts(target, run, root, redactor, output=output)
    texts = {name: _redacted_text(value, redactor) for name, (_, value) in parts.items()}
    path = Path.cwd() / f"ipexctl-support-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    data = _pack_archive(texts)
    write_atomic(path, data)
    return SupportFile(path, len(data), tuple((name, text) for name, (text, _) in parts.items()))


def _named_attributes(value: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _home_folders() -> Iterator[str]:
    with suppress(RuntimeError):
        yield str(Path.home())
        yield str(Path.home().resolve())


def _alias_person(redactor: Redactor, by: str) -> None:
    """Add aliases for the user and the machine in `by`, which is USER@MACHINE."""
    user, _, machine = by.partition("@")
    redactor.add_users(user)
    redactor.add_hosts(machine)


def _or_error(read: Callable[[], Any]) -> Any:
    """Return a part, or the slug of its error: the error's text may quote anything."""
    try:
        return read()
    except IpexctlError as e:
        return {"error": e.slug, "exit_code": e.exit_code}


def _versions_document() -> dict[str, Any]:
    requirements = [text for text in metadata.requires("ipexctl") or () if "extra ==" not in text]
    versions = {}
    for name in (re.split(r"[^\w.-]", text)[0] for text in requirements):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "schema_version": SCHEMA,
        "ipexctl": __version__,
        "python": sys.version,
        "libraries": [f"{name} {version}" for name, version in sorted(versions.items())],
        "system": platform.platform(),
        "distribution": _distribution_name(),
    }


def _distribution_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:  # macOS
        return ""


def _settings_document() -> dict[str, Any]:
    kinds = setting_kinds()
    return {
        key: setting.value if isinstance(setting.value, int) or kinds[key].choices else "(set)"
        for key, setting in settings.load_settings().items()
        if key in kinds
    }


def _stack_document() -> dict[str, Any] | None:
    lock = read_lock(lock_folder() / LOCK_FILE)
    return (
        None
        if lock is None
        else {
            "row": lock.row,
            "torch": lock.torch,
            "mpi": lock.mpi,
            "python": lock.python,
            "platform": lock.platform,
            "environment": lock.key,
            "packages": [f"{package.name} {package.version}" for package in lock.packages],
        }
    )


def _hosts_document(inventory: Inventory, redactor: Redactor) -> dict[str, Any]:
    for host in inventory.hosts:
        redactor.add_hosts(host.name, host.address)
        redactor.add_users(host.user)
    rows = [_named_attributes(host, _HOST) for host in inventory.hosts]
    return {"hosts": rows, "last_command": _last_states_document(inventory)}


def _last_states_document(inventory: Inventory) -> dict[str, list[str] | None]:
    states = last_states(inventory)
    return {key: None if names is None else sorted(names) for key, names in states.items()}


def _run_parts(
    target: Target, text: str, root: str, redactor: Redactor, *, output: bool
) -> dict[str, tuple[str, Any]]:
    """Return the documents about a run, with `output` its last lines; or the error."""
    description = "the run, as its hosts recorded it"
    try:
        with Fleet(target, root) as fleet:
            run = find_run(fleet, text)
            redactor.add_hosts(*run.about.hosts, *(part.target for part in run.seen))
            _alias_person(redactor, run.about.by)
            attempt = read_attempt(fleet, run)
    except InputError:  # there is no such run
        raise
    except IpexctlError as e:
        return {"run.json": (description, {"error": e.slug, "exit_code": e.exit_code})}
    plan, command = attempt.plan, attempt.command
    redactor.mask = SecretMask(known_secrets(plan.secret if plan else ()), command)
    parts: dict[str, tuple[str, Any]] = {"run.json": (description, _result_document(run))}
    if plan:
        parts["plan.json"] = (
            "its plan, findings, and facts of its hosts",
            _plan_document(attempt, plan),
        )
    if output:
        summary = f"command: {command}\ncause: {run.cause}\n"
        parts["logs/run.txt"] = ("its command line and first cause", summary)
        parts |= dict(_output_parts(target, text, root))
    return parts


def _result_document(run: ListedRun) -> dict[str, Any]:
    verdict = run.verdict
    return {
        **_named_attributes(run, _RUN),
        "state": run.phase.value,
        "about": _named_attributes(run.about, _ABOUT),
        "verdict": verdict and _named_attributes(verdict, _VERDICT),
        "first": verdict and verdict.first and _named_attributes(verdict.first, _END),
        "hosts": [
            {
                **_named_attributes(part, _ON_HOST),
                **_named_attributes(part.row, _ROW),
                **_named_attributes(part.journal, _JOURNAL),
            }
            for part in run.seen
        ],
    }


def _plan_document(attempt: Attempt, plan: LaunchPlan) -> dict[str, Any]:
    inputs = attempt.of_run
    return {
        "plan": {
            **_named_attributes(plan, _PLAN),
            "arguments": _safe_arguments(plan.argv),
            "hosts": [
                {
                    **_named_attributes(host, _PLAN_HOST),
                    "ranks": [_named_attributes(rank, _PLACE) for rank in host.ranks],
                }
                for host in plan.hosts
            ],
        },
        "facts": [_facts_document(r.host, r.inputs) for r in attempt.records if r.inputs],
        "inputs": inputs
        and {"environment": inputs.environment, "packages": [*inputs.packages.items()]},
        "findings": [row[0] for row in inputs.findings or ()] if inputs else None,
    }


def _facts_document(host: str, inputs: HostInputs) -> dict[str, Any]:
    variables = ", ".join(inputs.variables)
    return {"host": host, **_named_attributes(inputs, _FACTS), "variables": variables}


def _safe_arguments(words: Sequence[str]) -> list[str]:
    """Return options with long names, and their numbers; any other word may be a secret."""
    safe: list[str] = []
    option = ""
    for word in words:
        secret = is_secret_name(option)  # it may begin with --
        match = None if secret else _OPTION.fullmatch(word)
        value = match[2] if match else word
        option = match[1] if match else option
        number = value and _SMALL_NUMBER.fullmatch(value) and option and not is_secret_name(option)
        safe += [option] * bool(match) + [value if number else "..."] * (value is not None)
        option = option if match and value is None else ""
    return safe


def _output_parts(target: Target, text: str, root: str) -> Iterator[tuple[str, tuple[str, str]]]:
    by_rank: dict[int, list[str]] = {}

    def show(run: ListedRun, host: str, rank: int, texts: Sequence[str]) -> None:
        by_rank.setdefault(rank, []).extend(printable_text(without_colour(line)) for line in texts)

    with suppress(IpexctlError):  # run.json has the error
        show_logs(target, Wanted(text, lines=LINES), show, root)
    for rank, lines in sorted(by_rank.items()):
        content = "".join(f"{line}\n" for line in lines[-LINES:])
        yield f"logs/rank{rank:05}.log", (f"last {LINES} lines of rank {rank}", content)


def _redacted_text(value: Any, redactor: Redactor) -> str:
    if isinstance(value, str):
        return redactor.redact_text(value)
    return json.dumps(redactor.redact_document(value), indent=2) + "\n"


def _pack_archive(texts: Mapping[str, str]) -> bytes:
    """Return an archive without the user, the time and the folder of this machine."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in texts.items():
            member = tarfile.TarInfo(f"ipexctl-support/{name}")
            member.mode, body = 0o600, text.encode("utf-8", "replace")
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return data.getvalue()


def show_support_file(bundle: SupportFile) -> None:
    console = stdout_console()
    print_text(console, f"{bundle.path.name}, {format_bytes(bundle.bytes)}:")
    width = max(len(name) for name, _ in bundle.files)
    for name, description in bundle.files:
        print_text(console, f"  {name:{width}}  {description}")
    print_text(console, f"look through it before you send it: tar -xzOf {bundle.path.name} | less")


def support_document(bundle: SupportFile) -> dict[str, Any]:
    return {
        "path": str(bundle.path),
        "bytes": bundle.bytes,
        "files": [name for name, _ in bundle.files],
        "exit_code": bundle.exit_code,
    }
