"""init: choose hosts, check that they answer, and write a hostfile and ipexctl.toml.

An existing hostfile is used unchanged: then only ipexctl.toml is written. With --user, the files
are in the folder of the user's own settings, whose other lines stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ipexctl.base.host_outcome import HostDown
from ipexctl.base.located_errors import Bad
from ipexctl.base.quoting import quote
from ipexctl.common.files import write_atomic
from ipexctl.errors import EXIT_OK, EXIT_UNREACHABLE, HostKeyUnknown, InputError
from ipexctl.inventory.host_address import parse_bare
from ipexctl.inventory.hostfile_formats import render_inventory
from ipexctl.inventory.hostfile_text import parse_hosts
from ipexctl.inventory.inventory import Inventory
from ipexctl.local import hostfile_reader
from ipexctl.local.nearest_file import PROJECT_FILE, short_path
from ipexctl.local.ownership import chmod_command, untrusted_reason
from ipexctl.local.settings import USER_FILE, of_project
from ipexctl.local.settings_file import Setting, parse_settings
from ipexctl.local.user_dirs import make_private
from ipexctl.machines.target import Target, read_inventory
from ipexctl.quick_dataclass import dataclass
from ipexctl.schema.schema_files import schema_line

HOSTFILE = "hostfile"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TOML = """\
{schema}
# Settings for this folder and those below it; options override them. See docs/hosts.md.
{settings}

# [run]
# ppn = 2
# env = {{ OMP_NUM_THREADS = "8" }}
"""


Overwrite = Callable[[Sequence[Path]], bool]


@dataclass(frozen=True)
class InitOptions:
    """`force` replaces files; `yes` takes every host of ssh_config if there is no hostfile."""

    folder: Path = Path()
    probe: bool = True
    yes: bool = False
    force: bool = False
    user: bool = False  # write the user's settings in `folder`

    @property
    def settings(self) -> Path:
        return self.folder / (USER_FILE if self.user else PROJECT_FILE)


@dataclass(frozen=True)
class InitReport:
    """`adopted`: the existing hostfile. `settings`: an ipexctl.toml that already names it."""

    written: tuple[Path, ...]
    hosts: Inventory
    down: tuple[HostDown, ...] = ()
    untrusted: tuple[HostDown, ...] = ()  # they are written, too
    adopted: str = ""
    settings: str = ""

    @property
    def exit_code(self) -> int:
        return EXIT_OK if self.written or self.settings else EXIT_UNREACHABLE


def init(target: Target, options: InitOptions, overwrite: Overwrite | None) -> InitReport:
    """Write the files. `overwrite` asks the user; None: there is no terminal.

    Hosts that don't answer are left out, or written as comments; none at all writes nothing.
    A host whose key is not accepted yet counts as one that answers."""
    chosen = target.hosts or options.force or options.user
    adopted = "" if chosen else _hostfile_here(options.folder)
    if setting := None if chosen else _named_already(adopted, target):
        hosts = read_inventory(replace(target, hostfile=Path(short_path(setting.value))))
        return InitReport((), hosts, adopted=short_path(setting.value), settings=setting.origin)
    hosts = (
        read_inventory(replace(target, hostfile=Path(adopted)))
        if adopted
        else _choose_hosts(target, options)
    )
    name = adopted or HOSTFILE
    ssh, own = target.ssh_config, _read_own_settings(options)
    settings = [f"hostfile = {json.dumps(name, ensure_ascii=False)}"]
    settings += [f"ssh_config = {_toml_path(ssh)}"] if ssh else []
    files = {} if adopted else {options.folder / name: ""}
    paths = [*files, *([] if options.user else [options.settings])]
    _may_write(paths, options, overwrite, "\n".join(settings) if adopted else "")
    down = _probe_hosts(hosts, target) if options.probe else ()
    untrusted = tuple(host_down for host_down in down if host_down.slug == HostKeyUnknown.slug)
    down = tuple(host_down for host_down in down if host_down not in untrusted)
    silent = {host_down.host for host_down in down}
    answering = tuple(host for host in hosts.hosts if host.name not in silent)
    if not answering:
        return InitReport((), hosts, down)
    if not adopted:
        files[options.folder / name] = _hosts_text(replace(hosts, hosts=answering), down)
    files[options.settings] = (
        "\n".join([*settings, *own.splitlines(), ""])
        if options.user
        else _TOML.format(schema=schema_line("settings"), settings="\n".join(settings))
    )
    make_private(options.folder)
    for file, text in files.items():  # the user's settings may hold a secret: notify
        write_atomic(file, text, mode=0o600 if options.user else None)
    return InitReport(tuple(files), hosts, down, untrusted, adopted)


def _read_own_settings(options: InitOptions) -> str:
    """Return the user's settings, without the lines that are replaced. Raises InputError."""
    path = options.settings
    if not (options.user and path.exists()):
        return ""
    text = path.read_text(encoding="utf-8")
    named = parse_settings(text, short_path(path))
    lines, replaced = text.splitlines(), {"hostfile", "ssh_config"} & named.keys()
    if "hostfile" in named and not options.force:
        raise InputError(
            f"{short_path(path)} names a hostfile already: {named['hostfile'].value}",
            hint="--force   # replaces that line",
            slug="file-exists",
        )
    numbers = {int(named[key].origin.rpartition(":")[2]) for key in replaced}
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in numbers)


def _hostfile_here(folder: Path) -> str:
    """Return the existing hostfile. Raises InputError if another user could have written it."""
    name = hostfile_reader.hostfile_here()
    if name and (why := untrusted_reason(folder / name)):
        raise InputError(
            f"{name} is not used: {why}",
            why="it decides which hosts receive your code",
            hint=chmod_command(folder / name, why)
            or f"# ipexctl init HOST HOST ..., or copy {name} into a folder of your own",
            slug="hostfile-untrusted",
        )
    return name


def _named_already(adopted: str, target: Target) -> Setting | None:
    """Return the setting of this folder's ipexctl.toml, or of one above that names this file."""
    setting = None if target.ssh_config else of_project(Path.cwd()).get("hostfile")
    if setting and Path(setting.project).parent != Path.cwd():
        same_file = os.path.realpath(setting.value) == os.path.realpath(adopted)
        return setting if adopted and same_file else None
    return setting


def ssh_config_host_names(ssh_config: Path | None) -> tuple[str, ...]:
    """Return names of ssh_config that are one host each, not patterns; Node1 equals node1."""
    from ipexctl.machines.ssh.config import SshConfig

    names = (name for name in SshConfig(ssh_config).names() if _is_name(name))
    by_name: dict[str, str] = {}
    for name in names:
        by_name.setdefault(name.lower(), name)
    return tuple(by_name.values())


def _choose_hosts(target: Target, options: InitOptions) -> Inventory:
    if target.hosts:
        return _with_this_machine(parse_hosts(target.hosts))
    names = ssh_config_host_names(target.ssh_config)
    config = ("-F", str(target.ssh_config)) if target.ssh_config else ()
    init = quote(("ipexctl", "init", *["--user"] * options.user, *config))
    if names and options.yes:
        return parse_hosts(names)
    why = _none_offered(target.ssh_config)
    hint = f"# {init} HOST HOST ... names them\n{init} localhost   # this machine alone"
    if names:
        why = f"ssh_config has: {', '.join(names[:20])}"
        hint = f"{init} -y   # every host of ssh_config\n# {init} HOST HOST ... names them"
    raise InputError("no hosts given", why=why, hint=hint, slug="no-hosts-chosen")


def _none_offered(ssh_config: Path | None) -> str:
    file = ssh_config or Path("~/.ssh/config")
    exists = os.path.exists(file.expanduser())
    return f"{file} has no Host line with a name" if exists else f"{file} does not exist"


def _with_this_machine(hosts: Inventory) -> Inventory:
    """Make `localhost` this machine, without SSH; it cannot be combined with other hosts."""
    own = [host for host in hosts.hosts if host.name in _LOOPBACK and not (host.user or host.port)]
    if own and len(hosts.hosts) > 1:
        raise InputError(
            f"{own[0].name} cannot be combined with other hosts",
            why=f"on every host, {own[0].name} means that host itself",
            hint="use the address or host name under which the other hosts reach this machine",
            slug="localhost-among-hosts",
        )
    return replace(hosts, hosts=tuple(replace(host, local=True) for host in own)) if own else hosts


def _may_write(
    paths: Sequence[Path], options: InitOptions, overwrite: Overwrite | None, lines: str
) -> None:
    """Check that the files may be written. `lines`: the content needed in a file that stays."""
    existing = [path for path in paths if os.path.lexists(path)]
    if not existing or options.force:
        return
    if overwrite is None or not overwrite(existing):
        names, several = " and ".join(map(str, existing)), len(existing) > 1
        raise InputError(
            f"{names} already {'exist' if several else 'exists'}",
            hint=f"write into it:\n{lines}"
            if lines
            else f"--force   # replaces {'them' if several else 'it'}",
            slug="file-exists",
        )


def _probe_hosts(hosts: Inventory, target: Target) -> tuple[HostDown, ...]:
    from ipexctl.doctor.doctor import examine_hosts
    from ipexctl.machines.fleet import GRACE, Fleet

    return examine_hosts(Fleet(target, hosts=hosts, grace=GRACE)).down


def _hosts_text(hosts: Inventory, down: Sequence[HostDown]) -> str:
    comments = [" ".join(f"# {host.host} left out: {host.what}".split()) for host in down]
    text = render_inventory(hosts, "hostfile").text
    return text + "".join(f"{''.join(filter(str.isprintable, comment))}\n" for comment in comments)


def _toml_path(path: Path) -> str:
    text = str(path.resolve())
    if not text.isprintable() or "'" in text:
        raise InputError(
            f"{text!r} cannot be written into {PROJECT_FILE}", slug="path-not-writable"
        )
    return f"'{text}'"


def _is_name(text: str) -> bool:
    try:
        parse_bare(text)
    except Bad:
        return False
    return True
