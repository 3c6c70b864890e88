"""Typer only: options -> request value -> verb -> renderer -> exit code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from ipexctl import __version__
from ipexctl.errors import EXIT_BUG, EXIT_INTERRUPTED, InputError, IpexctlError

if TYPE_CHECKING:
    from ipexctl.verbs.session import Interrupts

app = typer.Typer(
    name="ipexctl",
    help="Multi-node PyTorch training on Linux CPU machines that answer to SSH.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# --- options that several commands share ---------------------------------------------------------

Hostfile = Annotated[
    Path | None,
    typer.Option("-f", "--hostfile", "--machinefile", help="File with one host per line."),
]
HostList = Annotated[
    list[str] | None, typer.Option("-H", "--hosts", help="Hosts by name: a,b:2 (repeatable).")
]
SshConfig = Annotated[
    Path | None, typer.Option("-F", "--ssh-config", help="SSH configuration file to use.")
]
Forks = Annotated[int, typer.Option("--forks", min=1, help="Hosts worked on at the same time.")]
Limit = Annotated[
    list[str] | None,
    typer.Option("-l", "--limit", help="Only these: node[1-4], @group, all:!bad, @healthy."),
]
Exclude = Annotated[
    list[str] | None, typer.Option("-x", "--exclude", help="Not these; patterns as for --limit.")
]
AskPass = Annotated[
    bool, typer.Option("--ask-pass", help="Ask once for the SSH password of all hosts.")
]
TransportName = Annotated[
    str, typer.Option("--transport", help="paramiko, or openssh: the ssh program itself.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Root = Annotated[str, typer.Option("--root", help="ipexctl's folder on the hosts.")]


def _target(
    hostfile: Path | None,
    hosts: list[str] | None,
    ssh_config: Path | None,
    forks: int = 64,
    only: tuple[list[str] | None, list[str] | None] = (None, None),
    **more: Any,
) -> Any:
    """Hosts that nobody named are those of the settings; see `ipexctl config`."""
    from ipexctl.verbs.settings import configured_hostfile
    from ipexctl.verbs.target import Target

    limit, exclude = (tuple(patterns or ()) for patterns in only)
    if not hostfile and not hosts:
        hostfile = configured_hostfile(_note)
    return Target(
        hostfile,
        tuple(hosts or ()),
        ssh_config,
        forks,
        limit=limit,
        exclude=exclude,
        note=_note,
        **more,
    )


def _note(text: str) -> None:
    printable = "".join(c if c.isprintable() else "?" for c in text)
    print(f"ipexctl: note: {printable}", file=sys.stderr)


def _show_version(value: bool) -> None:
    if value:
        print(f"ipexctl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    from ipexctl.verbs.settings import defaults, load

    try:
        context.default_map = defaults(load())
    except InputError:
        if "--help" not in sys.argv:  # help must work beside a broken ipexctl.toml
            raise


# --- doctor --------------------------------------------------------------------------------------


@app.command()
def doctor(
    names: Annotated[list[str] | None, typer.Argument(metavar="[HOSTS]...")] = None,
    hostfile: Hostfile = None,
    hosts: HostList = None,
    limit: Limit = None,
    exclude: Exclude = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    transport: TransportName = "paramiko",
    root: Root = "~/.ipexctl",
    json: Json = False,
    format: Annotated[
        str, typer.Option("--format", help="text, json, junit or markdown.")
    ] = "text",
    level: Annotated[
        str, typer.Option("--level", help="quick: ask and connect; std: measure as well.")
    ] = "quick",
    python: Annotated[
        str, typer.Option("--python", help="Whose torch the level std measures (on the hosts).")
    ] = "",
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what is safe and can be undone; asks first.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last --fix back.")] = False,
    script: Annotated[
        bool, typer.Option("--print", help="With --fix: print what needs root as a script.")
    ] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Don't ask.")] = False,
    forks: Forks = 64,
    verbose: Annotated[int, typer.Option("-v", count=True, help="Say why as well.")] = 0,
) -> None:
    """Look at all hosts: what each is, and what would break or slow a training."""
    from ipexctl.verbs.doctor import Options, examine

    as_text = _formatter("json" if json else format)
    named = [*(names or ()), *(hosts or ())]
    target = _target(
        hostfile,
        named,
        ssh_config,
        forks,
        only=(limit, exclude),
        ask_pass=ask_pass,
        transport=transport,
    )
    if (fix and not script) or undo:
        raise typer.Exit(_mend(target, root, undo=undo, yes=yes, json=json))
    report = examine(target, root, Options(root, level, python))
    if script:
        from ipexctl.ui.doctor.fixes import show_scripts

        show_scripts(report, sys.stdout)
        raise typer.Exit(0)
    if as_text:
        print(as_text(report))
    else:
        from ipexctl.ui.doctor import show

        show(report, sys.stdout, verbose=verbose > 0)
    raise typer.Exit(report.exit_code)


def _mend(target: Any, root: str, *, undo: bool, yes: bool, json: bool) -> int:
    """doctor --fix and --undo. The plan goes to stderr, what was done to stdout."""
    from ipexctl.ui.doctor import fixes
    from ipexctl.verbs import fix as verb

    def agree(plans: Any) -> bool:
        if yes and not json:
            fixes.show_plan(plans, sys.stderr)
        return yes or fixes.ask(plans, sys.stdin, sys.stderr)

    report = verb.undo(target, root) if undo else verb.mend(target, agree, root)
    if json:
        import json as encoder

        print(encoder.dumps(fixes.document(report), indent=2))
    else:
        fixes.show_done(report, sys.stdout, "" if undo else fixes.undo_command(target, root))
    return report.exit_code


def _formatter(name: str) -> Callable[[Any], str] | None:
    """None is the text for people."""
    if name == "text":
        return None
    from ipexctl.ui import formats

    known = {"json": formats.as_json, "junit": formats.junit, "markdown": formats.markdown}
    if name not in known:
        raise InputError(f"--format {name}: no such format", hint=f"text, {', '.join(known)}")
    return known[name]


# --- explain -------------------------------------------------------------------------------------


@app.command()
def explain(
    what: Annotated[str, typer.Argument(metavar="ID|LOGFILE|-", help="A check, or a log.")],
    json: Json = False,
) -> None:
    """Say what a check's id means, or which known failures a log (- is stdin) tells of."""
    from ipexctl.verbs.explain import document
    from ipexctl.verbs.explain import explain as verb

    found = verb(what, sys.stdin.buffer)
    if json:
        import json as encoder

        print(encoder.dumps(document(found), indent=2))
    else:
        from ipexctl.ui.console import stdout_console
        from ipexctl.ui.explain import show

        show(found, stdout_console())
    raise typer.Exit(found.exit_code)


# --- hosts ---------------------------------------------------------------------------------------


@app.command()
def hosts(
    names: Annotated[list[str] | None, typer.Argument(metavar="[HOSTS]...")] = None,
    hostfile: Hostfile = None,
    named: HostList = None,
    limit: Limit = None,
    exclude: Exclude = None,
    to: Annotated[
        str, typer.Option("--to", help="intelmpi, mpich, openmpi, deepspeed, ansible, slurm ...")
    ] = "",
    list_: Annotated[bool, typer.Option("--list", help="Only the names, one per line.")] = False,
    json: Json = False,
) -> None:
    """Show whom a hostfile names, or write it as another program's hostfile."""
    from ipexctl.ui.hosts import table
    from ipexctl.verbs import hosts as verb

    everyone = [*(names or ()), *(named or ())]
    target = _target(hostfile, everyone, None, only=(limit, exclude))
    if to:
        rendered = verb.convert(target, to)
        for note in rendered.notes:
            _note(note)
        print(rendered.text, end="")
        return
    found = verb.inventory(target)
    if json:
        import json as encoder

        print(encoder.dumps(verb.document(found), indent=2))
    else:
        print("".join(f"{h.name}\n" for h in found.hosts) if list_ else table(found), end="")


@app.command()
def init(
    names: Annotated[list[str] | None, typer.Argument(metavar="[HOSTS]...")] = None,
    ssh_config: SshConfig = None,
    forks: Forks = 64,
    yaml: Annotated[bool, typer.Option("--yaml", help="hosts.yaml instead of hostfile.")] = False,
    probe: Annotated[bool, typer.Option(help="Log in to each host first.")] = True,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="All hosts of ssh_config.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files.")] = False,
) -> None:
    """Write a hostfile and ipexctl.toml here, for hosts of ssh_config or those named."""
    from ipexctl.ui.hosts import ask_overwrite, ask_which, show_started
    from ipexctl.verbs.init import Ask, Options
    from ipexctl.verbs.init import init as verb
    from ipexctl.verbs.target import Target

    ask = Ask(
        lambda offered: ask_which(offered, sys.stdin, sys.stderr),
        lambda paths: ask_overwrite(paths, sys.stdin, sys.stderr),
    )
    started = verb(
        Target(None, tuple(names or ()), ssh_config, forks, note=_note),
        Options(yaml=yaml, probe=probe, yes=yes, force=force),
        ask if sys.stdin.isatty() else None,
    )
    show_started(started, sys.stdout, sys.stderr)
    raise typer.Exit(started.exit_code)


@app.command()
def config(
    show_origin: Annotated[
        bool, typer.Option("--show-origin", help="Where each one is from.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the settings that ipexctl.toml, the user's config.toml and the environment make."""
    from ipexctl.ui.hosts import settings_text
    from ipexctl.verbs.settings import document, load

    found = load()
    if json:
        import json as encoder

        print(encoder.dumps(document(found), indent=2))
    else:
        print(settings_text(found, show_origin=show_origin), end="")


# --- trust ---------------------------------------------------------------------------------------


@app.command()
def trust(
    names: Annotated[list[str] | None, typer.Argument(metavar="[HOSTS]...")] = None,
    hostfile: Hostfile = None,
    hosts: HostList = None,
    limit: Limit = None,
    exclude: Exclude = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Accept new keys.")] = False,
    json: Json = False,
    forks: Forks = 64,
) -> None:
    """Show the hosts' SSH keys and remember the ones you accept."""
    from ipexctl.ui.trust import ask, document, show, show_downs
    from ipexctl.verbs.trust import trust as verb

    named = [*(names or ()), *(hosts or ())]
    target = _target(hostfile, named, ssh_config, forks, only=(limit, exclude), ask_pass=ask_pass)
    report = verb(target, lambda keys: yes or ask(keys, sys.stdin, sys.stderr))
    if json:
        import json as encoder

        print(encoder.dumps(document(report), indent=2))
    else:
        show(report, sys.stdout)
    show_downs(report.downs, sys.stderr)
    raise typer.Exit(report.exit_code)


# --- install -------------------------------------------------------------------------------------


@app.command()
def install(
    names: Annotated[list[str] | None, typer.Argument(metavar="[HOSTS]...")] = None,
    hostfile: Hostfile = None,
    hosts: HostList = None,
    limit: Limit = None,
    exclude: Exclude = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    transport: TransportName = "paramiko",
    root: Root = "~/.ipexctl",
    torch: Annotated[str, typer.Option("--torch", help="Version: 2.13 or 2.13.0.")] = "",
    mpi: Annotated[str, typer.Option("--mpi", help="intel or none.")] = "intel",
    python: Annotated[
        str, typer.Option("--python", help="Version (3.11) or path on the hosts.")
    ] = "",
    find_links: Annotated[
        list[str] | None, typer.Option("--find-links", help="Folder or page with wheels.")
    ] = None,
    index_url: Annotated[str, typer.Option("--index-url", help="Instead of the default.")] = "",
    extra_index_url: Annotated[
        list[str] | None, typer.Option("--extra-index-url", help="A further package index.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say what would be done.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Don't ask.")] = False,
    json: Json = False,
    forks: Forks = 64,
) -> None:
    """Put PyTorch and MPI on all hosts: one locked set of files, proved before it is used."""
    from ipexctl.core.stack import Request, check_mpi
    from ipexctl.hosts.indexes import Indexes
    from ipexctl.ui.install import View, ask, document, show
    from ipexctl.verbs.install import Install
    from ipexctl.verbs.install import install as verb

    asked = Install(
        wanted=Request(torch, check_mpi(mpi), python),
        root=root,
        options=Indexes(index_url, tuple(extra_index_url or ()), tuple(find_links or ())),
        check=check,
    )
    go_on = (lambda: True) if yes or check or json else (lambda: ask(sys.stdin))
    named = [*(names or ()), *(hosts or ())]
    target = _target(
        hostfile,
        named,
        ssh_config,
        forks,
        only=(limit, exclude),
        ask_pass=ask_pass,
        transport=transport,
    )
    with View(confirm=go_on, quiet=json) as view:
        report = verb(target, asked, view.progress())
    if json:
        import json as encoder

        print(encoder.dumps(document(report), indent=2))
    else:
        show(report)
    raise typer.Exit(report.exit_code)


# --- run -----------------------------------------------------------------------------------------


@app.command(
    context_settings={"allow_interspersed_args": False},
    help="Run a PyTorch script on all hosts with mpirun, with live output of every rank.",
)
def run(
    script: Annotated[str, typer.Argument(help="The script, or with -m the module, to run.")],
    args: Annotated[
        list[str] | None, typer.Argument(help="Everything after the script is the script's.")
    ] = None,
    hostfile: Hostfile = None,
    hosts: HostList = None,
    n: Annotated[int | None, typer.Option("-n", "--np", help="Ranks in all.")] = None,
    ppn: Annotated[
        int | None, typer.Option("--ppn", "--nproc-per-node", help="Ranks per host (also -ppn).")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module.")] = False,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="K=V for every rank; K: as it is here."),
    ] = None,
    host_timeout: Annotated[
        float, typer.Option("--host-timeout", min=1, help="Seconds a host may be silent.")
    ] = 30,
    limit: Limit = None,
    exclude: Exclude = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    transport: TransportName = "paramiko",
    root: Root = "~/.ipexctl",
    forks: Forks = 64,
    json: Json = False,
) -> None:
    from ipexctl.ui.run import view
    from ipexctl.verbs.run import RunOptions
    from ipexctl.verbs.run import run as verb
    from ipexctl.verbs.settings import configured_env

    options = RunOptions(
        script=script,
        args=tuple(args or ()),
        module=module,
        n=n,
        ppn=ppn,
        root=root,
        env=_pairs([*configured_env(), *(env or [])]),
        forks=forks,
        host_timeout=host_timeout,
    )
    target = _target(
        hostfile,
        hosts,
        ssh_config,
        forks,
        only=(limit, exclude),
        ask_pass=ask_pass,
        transport=transport,
    )
    with _interrupts() as interrupts:
        result = verb(target, options, view(as_json=json), interrupts)
    raise typer.Exit(result.exit_code)


def _pairs(items: list[str]) -> tuple[tuple[str, str], ...]:
    import os

    pairs = []
    for item in items:
        key, sign, value = item.partition("=")
        if not key.isidentifier():
            raise InputError(f"--env {item}: not of the form NAME=VALUE or NAME")
        if not sign and key not in os.environ:
            raise InputError(f"--env {key}: not set here, so there is no value to pass on")
        pairs.append((key, value if sign else os.environ[key]))
    return tuple(pairs)


@contextmanager
def _interrupts() -> Iterator[Interrupts]:
    """Ctrl-C (and the end of the terminal) counted instead of raised, while a run can answer it."""
    from ipexctl.verbs.session import Interrupts

    interrupts = Interrupts()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupts.hit) for number in numbers]
    try:
        yield interrupts
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


# --- shell ---------------------------------------------------------------------------------------


@app.command()
def shell(
    host: Annotated[str, typer.Argument(metavar="HOST")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Instead of a shell.")
    ] = None,
    hostfile: Hostfile = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    transport: TransportName = "paramiko",
    root: Root = "~/.ipexctl",
) -> None:
    """Log in to a host, with the environment that `install` put there."""
    from ipexctl.verbs.shell import attend

    names = None if hostfile else [host]
    target = _target(hostfile, names, ssh_config, 1, ask_pass=ask_pass, transport=transport)
    code = attend(
        target, host, tuple(command or ()), root, lambda text: print(text, file=sys.stderr)
    )
    raise typer.Exit(code)


# --- lab -----------------------------------------------------------------------------------------

lab_app = typer.Typer(
    help="A practice cluster of real SSH hosts on this machine (Linux, root).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(lab_app, name="lab")

LabName = Annotated[str, typer.Option("--name", help="Name of the lab.")]
LabHostName = Annotated[str, typer.Argument(metavar="HOST", help="A host of the lab: node01.")]


@lab_app.command("up", help="Start a lab: every host has its own address, home and sshd.")
def lab_up(
    n: Annotated[int, typer.Option("-n", help="Number of hosts.")] = 3,
    name: LabName = "lab",
    host: Annotated[
        list[str] | None,
        typer.Option("--host", help="Shape of one host: node02:isa=amx,nic=ens3,shm=64m."),
    ] = None,
    isa: Annotated[str, typer.Option("--isa", help="ISA of the hosts in turn: amx,avx2.")] = "",
    user: Annotated[str, typer.Option("--user", help="Login: trainer or root.")] = "trainer",
    uplink: Annotated[str, typer.Option("--uplink", help="Rate of this machine's link.")] = "",
    names: Annotated[bool, typer.Option("--names", help="Hosts know each other's names.")] = False,
    flat: Annotated[
        bool, typer.Option("--flat", help="One host with N addresses, for scale.")
    ] = False,
    owner: Annotated[
        int | None, typer.Option("--owner", help="End the lab when this process ends.")
    ] = None,
    json: Json = False,
) -> None:
    from ipexctl.lab import LabSpec
    from ipexctl.verbs import lab as verb

    spec = LabSpec(name=name, user=user, uplink=uplink, names=names)
    _show_labs((verb.up(verb.UpOptions(spec, n, tuple(host or ()), isa, flat, owner)),), json=json)


@lab_app.command("status", help="Show the labs that are up, their hosts and faults.")
def lab_status(
    name: Annotated[str, typer.Option("--name", help="Only this lab.")] = "", json: Json = False
) -> None:
    from ipexctl.verbs import lab as verb

    _show_labs(verb.status(name), json=json)


@lab_app.command("shell", help="Log in to a host.")
def lab_shell(
    host: LabHostName,
    name: LabName = "lab",
    root: Annotated[bool, typer.Option("--root", help="As root, without sshd.")] = False,
) -> None:
    import os

    from ipexctl.verbs import lab as verb

    argv = verb.shell(host, name, root=root)
    os.execvp(argv[0], argv)


@lab_app.command(
    "fault", help="Break a host: kill, freeze, unplug, changed-key, fill-disk or no-sshd."
)
def lab_fault(
    host: LabHostName,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What happens to it.")],
    name: LabName = "lab",
) -> None:
    from ipexctl.verbs import lab as verb

    verb.fault(host, kind, name)
    print(f"{host}: {kind}")


@lab_app.command("heal", help="Undo every fault of a host; one that was killed starts again.")
def lab_heal(host: LabHostName, name: LabName = "lab") -> None:
    from ipexctl.verbs import lab as verb

    verb.heal(host, name)
    print(f"{host}: healed")


@lab_app.command("down", help="End a lab. Nothing of it stays.")
def lab_down(
    name: LabName = "lab",
    everything: Annotated[bool, typer.Option("--all", help="Every lab.")] = False,
) -> None:
    from ipexctl.verbs import lab as verb

    for ended in verb.down(name, everything=everything):
        print(f"lab '{ended}' is down")


def _show_labs(states: tuple[Any, ...], *, json: bool) -> None:
    from ipexctl.ui.lab import lab_text
    from ipexctl.verbs.lab import document

    if json:
        import json as codec

        print(codec.dumps(document(states), indent=2))
    elif states:
        print("\n\n".join(lab_text(state) for state in states))
    else:
        print("no lab is up")


# --- the edge ------------------------------------------------------------------------------------


def main() -> None:
    """Every way out: a result's code, an explained error, an interrupt, or a bug of ours."""
    try:
        app(args=_long_dashes(sys.argv[1:]), prog_name="ipexctl", standalone_mode=True)
    except IpexctlError as e:
        _explain(e)
        sys.exit(e.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception:
        import traceback

        traceback.print_exc()
        print("\nThis is a bug in ipexctl, not in your setup.", file=sys.stderr)
        sys.exit(EXIT_BUG)


_MPI_SPELLINGS = {
    "-np": "-n", "-ppn": "--ppn", "--nproc_per_node": "--ppn", "-hosts": "-H",
    "-hostfile": "-f", "-machinefile": "-f",
}  # fmt: skip


def _flags(command: Callable[..., None]) -> frozenset[str]:
    """The options of a command that take no value."""
    hints = get_type_hints(command, include_extras=True).values()
    options = [get_args(hint)[1] for hint in hints if get_args(hint)[:1] == (bool,)]
    return frozenset({"--help", *(word for o in options for word in o.param_decls or ())})


def _long_dashes(args: list[str]) -> list[str]:
    """MPI's one-dash words as Click understands them; what follows the script is the script's."""
    if not args or args[0] != "run":
        return args
    flags = _flags(run)
    out, i = ["run"], 1
    while i < len(args) and args[i].startswith("-") and args[i] != "--":
        word = _MPI_SPELLINGS.get(args[i], args[i])
        alone = word in flags or "=" in word or (word[1:2] != "-" and len(word) > 2)
        out += [word] if alone else [word, *args[i + 1 : i + 2]]
        i += 1 if alone else 2
    return out + args[i:]


def _explain(e: IpexctlError) -> None:
    print(f"ipexctl: {e.what}", file=sys.stderr)
    for label, text in (("why", e.why), ("try", e.hint)):
        for i, line in enumerate(text.splitlines()):
            print(f"  {label + ':' if i == 0 else '':5}{line}", file=sys.stderr)


if __name__ == "__main__":
    main()
