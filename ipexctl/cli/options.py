"""Options that several commands share, and their conversion to values."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Protocol, TypeVar

import typer

from ipexctl.base.option import Option, Seconds, option, options_of
from ipexctl.cli import streams
from ipexctl.cli.help_layout import hosts_option, output_option
from ipexctl.cli.streams import fold_for_stderr
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ipexctl.local.settings_file import Setting

_host_option = functools.partial(option, group="Hosts")
_ssh_option = functools.partial(option, group="SSH")


@dataclass(frozen=True)
class HostOptions:
    """The options that name and reach hosts, in the order of the help."""

    names: tuple[str, ...] = option("HOSTS", "Host names, instead of -f or -H.", ())
    hostfile: str = _host_option(
        "-f --hostfile --machinefile FILE", "File with one host per line.", "", is_path=True
    )
    hosts: tuple[str, ...] = _host_option(
        "-H --hosts HOSTS", "Host names, with optional slots: a,b:2 (repeatable).", ()
    )
    limit: tuple[str, ...] = _host_option(
        "-l --limit PATTERN", "Only these hosts: node[1-4], @group, all:!bad, @healthy.", ()
    )
    exclude: tuple[str, ...] = _host_option(
        "-x --exclude PATTERN", "Skip these hosts; same patterns as --limit.", ()
    )
    ssh_config: str = _ssh_option(
        "-F --ssh-config FILE", "SSH configuration file to use.", "", is_path=True
    )
    ask_pass: bool = _ssh_option("--ask-pass", "Ask once for the SSH password of all hosts.", False)
    transport: str = _ssh_option(
        "--transport NAME", "SSH client: paramiko, or openssh for the ssh program.", "paramiko"
    )
    forks: int = _host_option(
        "--forks N", "Maximum number of hosts to work on in parallel.", 64, least=1
    )


LongHostfile = Annotated[  # for commands whose -f is --follow
    Path | None,
    hosts_option(
        "--hostfile", metavar="FILE", help="File with one host per line (-f is --follow here)."
    ),
]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Skip the confirmation prompt.")]
Check = Annotated[bool, typer.Option("--check", help="Show what would be removed; remove nothing.")]


def json_option(help: str) -> Any:
    """Return `--json`, with which an error of the command is printed on stdout as JSON too."""

    def noted(value: bool) -> bool:
        streams.errors_as_json = value
        return value

    return output_option("--json", callback=noted, help=help)


Json = Annotated[bool, json_option("Print one JSON document on stdout.")]
JsonLines = Annotated[bool, json_option("Print one JSON object per line on stdout.")]
NoFold = Annotated[
    bool, output_option("--no-fold", help="Show every rank's lines, even if they are identical.")
]
Ui = Annotated[
    str,
    output_option("--ui", metavar="NAME", help="Output style: auto, stream, plain or json."),
]
Verbose = Annotated[
    bool, output_option("-v", "--verbose", help="Show details, and all output after a failure.")
]
Root = Annotated[str, hosts_option("--root", metavar="DIR", help="ipexctl's folder on the hosts.")]


def make_target(
    *,
    names: Sequence[str] | None = None,
    hostfile: Path | None = None,
    hosts: Sequence[str] | None = None,
    limit: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    ssh_config: Path | str | None = "",
    root: str = "",
    verbose: bool = False,
    **more: Any,
) -> Any:
    """Return the target; without hosts on the command line, those of the settings are used.

    `ssh_config` and `root` are "" if the command has no such option.
    """
    from ipexctl.base.typed_command import Typed
    from ipexctl.local.nearest_file import short_path
    from ipexctl.local.settings import is_from_file
    from ipexctl.machines.target import Target

    _refuse_files(names or ())
    host_names = (*(names or ()), *(hosts or ()))
    given_here = bool(hostfile or host_names)
    values = {
        "hostfile": given_here,
        "hosts": given_here,
        "ssh_config": ssh_config,
        "root": root,
    }
    configured = _lasting_settings(values, verbose=verbose)
    lasting = frozenset(key for key, setting in configured.items() if is_from_file(setting))
    if "hostfile" in configured:
        hostfile = Path(short_path(configured["hostfile"].value))
    if "hosts" in configured:
        host_names = (configured["hosts"].value,)
    if "ssh_config" in configured:
        ssh_config = short_path(configured["ssh_config"].value)
    config = Path(ssh_config) if ssh_config else None
    return Target(
        hostfile,
        host_names,
        config,
        limit=tuple(limit or ()),
        exclude=tuple(exclude or ()),
        typed=Typed(tuple(sys.argv[1:])),
        configured=lasting,
        note=print_note,
        **more,
    )


def _refuse_files(names: Sequence[str]) -> None:
    """Refuse a file in the place of host names: `ipexctl install hosts`."""
    from ipexctl.base.quoting import quote_for_pasting
    from ipexctl.local.hostfile_reader import given_as_host

    name = next(filter(given_as_host, names), None)
    if name is None:
        return
    words = sys.argv[1:]
    index = words.index(name, 1) if name in words[1:] else len(words)  # 0 is the command
    packages = words[:1] == ["install"] and Path(name).name.startswith(("require", "pyproject"))
    kind, option = ("requirements file", "-r") if packages else ("hostfile", "-f")
    typed = quote_for_pasting(("ipexctl", *words[:index], option, name, *words[index + 1 :]))
    raise InputError(
        f"{name} is a {kind}, not the name of a host",
        why=f"a {kind} is given with {option}",
        hint=typed
        if "/" in name
        else f"{typed}\n-H {name}   # if there is also a host with this name",
        slug="file-as-host",
    )


def _lasting_settings(values: Mapping[str, Any], *, verbose: bool) -> dict[str, Setting]:
    """Return the settings that decide which hosts are used and how. A note names their files: with
    `verbose`, and where the last command had others or was in another folder.

    Raises InputError for those of a project that are not accepted, and for files that others can
    write: ssh itself refuses such an ssh_config, if it is the user's own.
    """
    from ipexctl.local.accepted_settings import find_proposal, is_accepted, refusal_error
    from ipexctl.local.last_outcome import remember_sources
    from ipexctl.local.nearest_file import short_path
    from ipexctl.local.ownership import chmod_command, untrusted_above, untrusted_reason
    from ipexctl.local.settings import load_settings
    from ipexctl.machines.target import ROOT

    settings = load_settings()
    defaults = {"hostfile": False, "hosts": False, "ssh_config": None, "root": ROOT}
    proposed = find_proposal(settings)
    unaccepted = (
        {s.key for s in proposed.settings} if proposed and not is_accepted(proposed) else ()
    )

    def is_typed(key: str) -> bool:
        """Decide if a value was typed; a setting that is not accepted is not a default here."""
        setting = settings.get(key)
        unchanged = setting and key not in unaccepted and str(values[key]) == setting.value
        return bool(values[key] != defaults[key] and not unchanged)

    hosts = ("hostfile", "hosts")
    typed = {key for key in defaults if is_typed(key)}
    typed |= set(hosts) if typed & set(hosts) else set()
    keys = {key for key in settings if key in defaults and key not in typed}
    if proposed and unaccepted and any(s.key in keys for s in proposed.settings):
        raise refusal_error(proposed, keys)
    active: dict[str, Setting] = {key: settings[key] for key in settings if key in keys}
    for key, setting in active.items():
        path = Path(setting.value)
        if key in ("ssh_config", "hostfile") and (
            why := untrusted_reason(path) or untrusted_above(path)
        ):
            raise InputError(
                f"{setting.value}: {why}",
                why=f"this file decides what runs and where; it is set in {setting.origin}",
                hint=f"{chmod_command(path, why)}\n"
                f"or use another file: {'-f' if key == 'hostfile' else '-F'} FILE".strip(),
                slug="settings-file-untrusted",
            )
    forms = {"hostfile": "hosts from {}", "hosts": "hosts {}", "ssh_config": "SSH settings from {}"}
    texts = {
        key: f"{text.format(short_path(active[key].value))} ({active[key].origin})"
        for key, text in forms.items()
        if key in active
    }
    if remember_sources({"hostfile": "", "hosts": "", **texts}) or (texts and verbose):
        print_note("; ".join(texts.values()))
    return active


def on_hosts(
    *without: str,
    names: bool = True,
    follows: bool = False,
    readers: Readers | None = None,
    only: Mapping[Any, Sequence[str]] | None = None,
    rare: Sequence[str] = (),
) -> Callable[[Callable[..., None]], Any]:
    """Call the command with its `target`, made from the options that name and reach hosts.
    `follows`: its -f is --follow. A parameter whose type declares options (base/option.py) is
    replaced by these; see `take_options` for `readers`. `only`: some options of a type. `rare`:
    parameters that only `--help all` explains, as it does options that are declared rare.

    In --help they are at the position of `target` in the command, HOSTS first, --forks last.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        unwanted = without if names else ("names", *without)
        host_options = options_of(HostOptions) if "target" in signature.parameters else ()
        wanted_names = [name for name in host_options if name not in unwanted]
        options = {p.name: p for p in declared_parameters(HostOptions, wanted_names)}
        if follows:
            options["hostfile"] = keyword_parameter("hostfile", LongHostfile, None)
        parameters, declaring = _typed_parameters(signature, options, only or {})
        left_out = {*rare}
        for kind, wanted_names in declaring.values():
            left_out |= {name for name in wanted_names if options_of(kind)[name].rare}

        @functools.wraps(command)
        def with_target(**given: Any) -> None:
            values = {
                name: take_options(kind, given, readers or {}, wanted_names)
                for name, (kind, wanted_names) in declaring.items()
            }
            target = {name: given.pop(name) for name in options}
            if target:
                others = {"root": given.get("root", ""), "verbose": bool(given.get("verbose"))}
                values["target"] = make_target(**target, **others)
            command(**values, **given)

        del with_target.__wrapped__
        with_target.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_target.__annotations__ = {p.name: p.annotation for p in parameters}
        with_target.rare = left_out  # type: ignore[attr-defined]
        return with_target

    return decorate


def _typed_parameters(
    signature: inspect.Signature,
    options: Mapping[str, inspect.Parameter],
    only: Mapping[Any, Sequence[str]],
) -> tuple[list[inspect.Parameter], dict[str, tuple[Any, list[str]]]]:
    """Return what may be typed, in order, and {parameter: its type, its options} of parameters
    whose type declares options."""
    parameters: list[inspect.Parameter] = []
    declaring: dict[str, tuple[Any, list[str]]] = {}
    for item in signature.parameters.values():
        if item.name == "target":
            parameters += options.values()
        elif dataclasses.is_dataclass(item.annotation):
            kind: Any = item.annotation
            wanted_names = [*only.get(kind, options_of(kind))]
            declaring[item.name] = kind, wanted_names
            parameters += declared_parameters(kind, wanted_names)
        else:
            parameters.append(keyword_parameter(item.name, item.annotation, item.default))
    parameters.sort(key=lambda p: (p.default is not p.empty, p.name != "names", p.name == "forks"))
    return parameters, declaring


def print_note(text: str) -> None:
    printable = "".join(char if char.isprintable() else "?" for char in text)
    for line in fold_for_stderr(f"ipexctl: note: {printable}", "  "):
        print(line, file=sys.stderr)


def project_lock_folder() -> Path:
    """Return the folder of this project's ipexctl.lock, whether it exists or not."""
    from ipexctl.local.project_lock import LOCK_FILE, lock_folder

    folder = lock_folder()
    if folder != Path():
        print_note(f"the lock of this project is {os.path.relpath(folder / LOCK_FILE)}")
    return folder


class HasExitCode(Protocol):
    @property
    def exit_code(self) -> int: ...


D = TypeVar("D", bound=HasExitCode)


def end_command(
    result: D, document: Callable[[D], Mapping[str, Any]], show: Callable[[D], None], *, json: bool
) -> NoReturn:
    """Print the result of a command, and exit with its code."""
    if json:
        print_json(document(result))
    else:
        show(result)
    raise typer.Exit(result.exit_code)


def print_json(document: Mapping[str, Any]) -> None:
    import json

    print(json.dumps({"schema_version": 1, **document}, indent=2))


def _read_seconds(text: str | float, *, least: float) -> float:
    from ipexctl.base.sizes import seconds_of

    seconds = seconds_of(str(text))
    if seconds is None:
        raise typer.BadParameter(f"{text!r} is not a duration such as 90, 90s, 10m, 1h30m or 1d")
    if seconds < least:
        raise typer.BadParameter(f"{text!r} is less than {least:.0f} s")
    return seconds


FROM_ZERO = functools.partial(_read_seconds, least=0.0)


def declared_parameters(
    kind: Any, only: Sequence[str] | None = None
) -> Iterator[inspect.Parameter]:
    """Yield a parameter of the command for each option that `kind` declares, for Typer."""
    hints = typing.get_type_hints(kind)
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    for name in options_of(kind) if only is None else only:
        spec = options_of(kind)[name]
        typed, default = _on_command_line(hints[name], spec, defaults[name])
        if default is dataclasses.MISSING:
            default = inspect.Parameter.empty
        yield keyword_parameter(name, Annotated[typed, _for_typer(spec, hints[name])], default)


def declare_option(kind: Any, name: str) -> Any:
    """Return a declared option for another command: the second part of its Annotated[...]."""
    return _for_typer(options_of(kind)[name], typing.get_type_hints(kind)[name])


def keyword_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _on_command_line(kind: Any, spec: Option, default: Any) -> tuple[Any, Any]:
    """Return the type on the command line, and the default. Lists and mappings repeat."""
    if spec.typed or spec.is_path:
        return spec.typed or Path | None, None
    if typing.get_origin(kind) in (tuple, dict):
        return list[str] | None, None
    if _is_duration(kind):
        return (float | None if default is None else float), default
    return kind, default


def _is_duration(kind: Any) -> bool:
    return kind is Seconds or Seconds in typing.get_args(kind)


def _for_typer(spec: Option, kind: Any) -> Any:
    if not spec.flags:
        return typer.Argument(metavar=spec.metavar, help=spec.help)
    timed = _is_duration(kind)
    least = 1.0 if spec.least is None else spec.least
    return typer.Option(
        *spec.flags,
        rich_help_panel=spec.group or None,
        metavar=spec.metavar,
        min=None if timed else spec.least,
        parser=functools.partial(_read_seconds, least=least) if timed else None,
        show_default=spec.show_default,
        help=spec.help,
    )


Readers = Mapping[str, Callable[[Any], Any]]


def take_options(
    kind: Any, typed_values: dict[str, Any], readers: Readers, only: Sequence[str] | None = None
) -> Any:
    """Take the options of `kind` out of what Typer read. `readers`: for those whose value differs
    from what was typed; they are called even if nothing was typed."""
    values: dict[str, Any] = {}
    for name in only or options_of(kind):
        typed = typed_values.pop(name)
        if name in readers:
            values[name] = readers[name](typed)
        elif typed is not None:
            values[name] = _plain_value(typed)
    return kind(**values)


def _plain_value(typed: Any) -> Any:
    if isinstance(typed, Path):
        return str(typed)
    return tuple(map(_plain_value, typed)) if isinstance(typed, list) else typed
