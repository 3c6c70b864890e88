"""The options of run."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ipexctl.cli import streams
from ipexctl.cli.help.help_layout import files_option, output_option, ranks_option, run_option
from ipexctl.cli.options import (
    DURATION,
    AskPass,
    Dest,
    Exclude,
    FetchLimit,
    Forks,
    Hostfile,
    HostList,
    Limit,
    Merge,
    NoFold,
    Root,
    SshConfig,
    TransportName,
    Verbose,
    json_option,
    make_target,
)
from ipexctl.errors import InputError
from ipexctl.local.environment import environment
from ipexctl.project.send_agreed import send_agreed

if TYPE_CHECKING:
    from ipexctl.run.outcome.retry_command import Typed
    from ipexctl.run.watch.run_watchers import View


def run(
    script: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT",
            help="Python script, a module (with -m), or another launcher's command line.",
        ),
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Script arguments: everything after SCRIPT."),
    ] = None,
    hostfile: Hostfile = None,
    hosts: HostList = None,
    n: Annotated[
        int | None, ranks_option("-n", "--np", metavar="N", min=1, help="Total number of ranks.")
    ] = None,
    ppn: Annotated[
        int | None,
        ranks_option(
            "--ppn",
            "--nproc-per-node",
            metavar="N",
            min=1,
            help="Number of ranks per host (also -ppn).",
        ),
    ] = None,
    module: Annotated[
        bool, ranks_option("-m", help="Run SCRIPT as a module, like python -m.")
    ] = False,
    env: Annotated[
        list[str] | None,
        ranks_option(
            "--env",
            metavar="NAME[=VALUE]",
            help="Set a variable for every rank; NAME alone forwards its local value.",
        ),
    ] = None,
    accelerate: Annotated[  # run_words.for_click has put what it says among the options
        Path | None,
        ranks_option(
            "--accelerate",
            metavar="FILE",
            help="Accelerate config with ranks, hosts and precision; options override it.",
        ),
    ] = None,
    secret_env: Annotated[
        list[str] | None,
        ranks_option(
            "--secret-env",
            metavar="NAME",
            help="Forward a local variable to the ranks as a secret.",
        ),
    ] = None,
    host_timeout: Annotated[
        float,
        run_option(
            "--host-timeout",
            metavar="TIME",
            parser=DURATION,
            show_default=False,
            help="Time without contact after which a host counts as lost (default: 30s).",
        ),
    ] = 30,
    timeout: Annotated[
        float | None,
        run_option(
            "--timeout", metavar="TIME", parser=DURATION, help="Maximum run time: 90s, 10m, 2h."
        ),
    ] = None,
    stall: Annotated[
        float | None,
        run_option(
            "--stall",
            metavar="TIME",
            parser=DURATION,
            help="Warn about ranks that print nothing for this long.",
        ),
    ] = None,
    require_together: Annotated[
        bool,
        run_option(
            "--require-together",
            help="Exit with code 125 unless all ranks exchanged data (126: not known).",
        ),
    ] = False,
    ui: Annotated[
        str,
        output_option(
            "--ui", metavar="NAME", help="Output style: auto, stream, plain, json or tui."
        ),
    ] = "auto",
    no_fold: NoFold = False,
    verbose: Verbose = False,
    ranks: Annotated[
        str | None, output_option("--ranks", metavar="RANKS", help="Show only these ranks: 0,4-7.")
    ] = None,
    show_hosts: Annotated[
        list[str] | None,
        output_option(
            "--show-hosts",
            metavar="PATTERN",
            help="Show only ranks on these hosts; same patterns as --limit.",
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        output_option(
            "-i", "--include", metavar="REGEX", help="Show only lines that match this pattern."
        ),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        output_option(
            "-e", "--leave-out", metavar="REGEX", help="Hide lines that match this pattern."
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        files_option("--data", metavar="NAME", help="Dataset to use, from `ipexctl data push`."),
    ] = None,
    name: Annotated[
        str,
        run_option(
            "--name", metavar="NAME", help="Name of the run, for ps, logs, stop, wait and rm."
        ),
    ] = "",
    detach: Annotated[
        bool,
        run_option("-d", "--detach", help="Return when all ranks have started; the run continues."),
    ] = False,
    die_with_me: Annotated[
        bool,
        run_option(
            "--die-with-me",
            help="End the run when this command ends; the default without a terminal.",
        ),
    ] = False,
    force: Annotated[
        bool, run_option("--force", help="Start even if preflight checks fail.")
    ] = False,
    no_sync: Annotated[
        bool,
        files_option("--no-sync", help="Do not copy the project: its files are already there."),
    ] = False,
    yes: Annotated[
        bool, files_option("-y", "--yes", help="Copy the project folder even if it is large.")
    ] = False,
    fetch: Annotated[
        list[str] | None,
        files_option(
            "--fetch",
            metavar="GLOB",
            help="Files to fetch after the run, from the ranks' working directory.",
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        files_option(
            "--outputs",
            metavar="DIR",
            help="Folder to fetch after the run, from the ranks' working directory.",
        ),
    ] = None,
    dest: Dest = None,
    merge: Merge = False,
    fetch_limit: FetchLimit = 100,
    log_limit: Annotated[
        int | None,
        output_option(
            "--log-limit",
            metavar="MB",
            min=1,
            help="Maximum size of each log kept on this machine.",
        ),
    ] = None,
    ports: Annotated[
        str | None,
        ranks_option(
            "--ports",
            metavar="FIRST-LAST",
            help="Port range to use where possible, for example 40000-40100.",
        ),
    ] = None,
    launcher: Annotated[
        str,
        ranks_option(
            "--launcher",
            metavar="NAME",
            help="How MPI daemons start: agents, or ssh (needs SSH between the hosts).",
        ),
    ] = "agents",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the plan and the reasons for it; start nothing.")
    ] = False,
    print_cmd: Annotated[
        bool,
        typer.Option("--print-cmd", help="Print an equivalent shell script; start nothing."),
    ] = False,
    limit: Limit = None,
    exclude: Exclude = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    transport: TransportName = "paramiko",
    root: Root = "~/.ipexctl",
    forks: Forks = 64,
    json: Annotated[bool, json_option("Same as --ui json.")] = False,
) -> None:
    """Run a PyTorch script on every host with mpirun; show the output of all ranks live."""
    from ipexctl.data.rules.dataset_rules import checked_names
    from ipexctl.local.environment import hide
    from ipexctl.local.settings import configured_env
    from ipexctl.run.command.views import view
    from ipexctl.run.outcome.line_filter import Wanted
    from ipexctl.run.outcome.listed_runs import checked_name
    from ipexctl.run.outcome.outcome import Left
    from ipexctl.run.plan import secret_env as secret
    from ipexctl.run.plan.port_plan import read_ports
    from ipexctl.run.run import run as verb
    from ipexctl.run.watch.fetch_outputs import typed_words
    from ipexctl.run.watch.run_options import RunOptions
    from ipexctl.run.watch.run_watchers import counted_interrupts

    _refuse_exports(exclude or [])
    ui = _way_to_show("json" if json else ui, ui, explain=explain, print_cmd=print_cmd)
    if module and not script:
        raise InputError("-m: the name of a module is missing", hint="ipexctl run -m MODULE")
    pairs = _pairs([*configured_env(), *(env or [])])
    typed = _typed(sys.argv[1:], (script, *(args or ())))
    if not module:
        _refuse_hostfile(script, args or [], typed)
    options = RunOptions(
        script=script,
        args=tuple(args or ()),
        module=module,
        n=n,
        ppn=ppn,
        root=root,
        env=pairs,
        secret=secret.values(secret_env or [], environment(), [name for name, _ in pairs]),
        host_timeout=host_timeout,
        ports=None if ports is None else read_ports(ports),
        launcher=launcher,
        timeout=timeout,
        stall=stall,
        require_together=require_together,
        log_limit=None if log_limit is None else log_limit * 1_000_000,
        fetch=tuple(fetch or ()),
        outputs=tuple(outputs or ()),
        merge=merge,
        dest=dest,
        fetch_limit=fetch_limit << 30,
        force=force,
        send=not no_sync,
        data=checked_names(data or ()),
        confirm=send_agreed(yes=yes),
        name=checked_name(name),
        detach=detach,
        lives_on=_lives_on(
            detach=detach,
            die_with_me=die_with_me,
            fetched=typed_words([*(fetch or ()), *(outputs or ())], dest, merge=merge),
        ),
        typed=typed,
        shown=Wanted(ranks, *(tuple(w or ()) for w in (show_hosts, include, leave_out))),
    )
    hide([name for name, _ in options.secret])  # before ssh or a program of its settings starts
    target = make_target(
        hostfile=hostfile, hosts=hosts, limit=limit, exclude=exclude, ssh_config=ssh_config,
        root=root,
        forks=forks, ask_pass=ask_pass, transport=transport,
    )  # fmt: skip
    if print_cmd:
        from ipexctl.run.explain_plan import as_script
        from ipexctl.run.plan.launch_script import left_out

        made = as_script(target, options, left_out(env or []))
        streams.check_spells(made)
        print(made, end="")
        return
    if explain:
        from ipexctl.run.command.plan_text import show
        from ipexctl.run.explain_plan import planned

        show(planned(target, options), as_json=ui == "json")
        return
    shown = view(ui, aside=detach, fold=not no_fold, verbose=verbose)
    with counted_interrupts(partial(leave, shown), lives_on=options.lives_on) as interrupts:
        result = verb(target, options, shown, interrupts)
    if isinstance(result, Left) and ui == "json":
        from ipexctl.run.command.jsonlines import left_line

        print(left_line(result.run_id))
    elif detach and isinstance(result, Left):
        print(result.run_id)
    raise typer.Exit(result.exit_code)


def _lives_on(*, detach: bool, die_with_me: bool, fetched: tuple[str, ...]) -> bool:
    """Does the run go on when this command is gone? A job without a terminal may not leave one."""
    if detach and die_with_me:
        raise InputError("-d and --die-with-me cannot be combined", hint="leave one of them out")
    if detach and fetched:
        raise InputError(
            "-d cannot be combined with --fetch or --outputs",
            why="files are fetched when a run ends, and -d does not wait for that",
            hint=f"ipexctl fetch @last {shlex.join(fetched)}, when it has ended",
        )
    terminal = sys.stdin.isatty() and sys.stderr.isatty() and not environment().get("CI")
    return detach or (terminal and not die_with_me)


def _way_to_show(ui: str, typed: str, *, explain: bool, print_cmd: bool) -> str:
    """`ui`, if it goes with the rest. What would be passed over is refused."""
    from ipexctl.run.command.views import check

    check(typed)
    if print_cmd and explain:
        raise InputError("--explain and --print-cmd cannot be combined", hint="use one of them")
    if print_cmd and ui == "json":
        raise InputError("--print-cmd prints a shell script, not JSON", hint="leave out --json")
    return ui


def _typed(words: list[str], own: tuple[str, ...]) -> Typed:
    from ipexctl.run.outcome.retry_command import Typed

    return Typed(tuple(words[: len(words) - len(own)]), own)


def _refuse_exports(patterns: list[str]) -> None:
    """Open MPI's `-x NAME` passes a variable on; here -x leaves hosts out, and none is called so.

    No host name has `=` or `_`; one in capitals that is set here is a variable.
    """
    for pattern in patterns:
        name = pattern.partition("=")[0]
        if name.isidentifier() and (
            "=" in pattern or "_" in name or (name.isupper() and name in environment())
        ):
            raise InputError(
                f"-x {pattern}: -x excludes hosts, and this looks like a variable",
                why="with Open MPI's mpirun, -x forwards a variable to the ranks",
                hint=f"did you mean --env {shlex.quote(pattern)} ?",
            )


def _refuse_hostfile(script: str, args: list[str], typed: Typed) -> None:
    """`ipexctl run hosts train.py`, where `hosts` is a file of hosts."""
    from ipexctl.local.hostfile_reader import is_hostfile
    from ipexctl.run.outcome import retry_command

    if script.endswith(".py") or not is_hostfile(script):
        return
    has_script = any(word == "-m" or os.path.isfile(word) for word in args)
    rest = tuple(args) if has_script else (*args, "SCRIPT")
    meant = replace(typed, options=(*typed.options, "-f", script), script=rest)
    raise InputError(
        f"{script} is a hostfile, not a script",
        why="a hostfile is given with -f",
        hint=retry_command.command(meant, (), None),
    )


def _pairs(items: list[str]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in items:
        key, sign, value = item.partition("=")
        if not key.isidentifier():
            raise InputError(f"--env {item}: expected NAME=VALUE or NAME")
        if not sign and key not in environment():
            raise InputError(
                f"--env {key}: not set on this machine, so there is no value to forward",
                hint=f"--env {key}=VALUE",
            )
        pairs.append((key, value if sign else environment()[key]))
    return tuple(pairs)


def leave(shown: View) -> None:
    """Ends the command though something hangs, be it stderr."""

    def last_words() -> None:
        shown.close()
        print("\nipexctl: detached; the hosts end the run when they lose contact", file=sys.stderr)

    thread = threading.Thread(target=last_words, daemon=True)
    thread.start()
    thread.join(0.3)
    os._exit(130)
