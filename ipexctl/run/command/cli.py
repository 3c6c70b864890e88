"""The options of run."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ipexctl.base.typed_command import Typed
from ipexctl.cli.declared_command import command
from ipexctl.cli.help_layout import run_option
from ipexctl.cli.options import NoFold, Root, Ui, Verbose, json_option, on_hosts
from ipexctl.errors import InputError, IpexctlError, MissingPackages
from ipexctl.local.environment import environment
from ipexctl.local.run_options import RunOptions
from ipexctl.project.send_agreed import send_agreed
from ipexctl.run.command.command_line_words import remove_launcher, spell_for_click
from ipexctl.run.typed_values import READERS

if TYPE_CHECKING:
    from ipexctl.run.watch.run_watchers import View


@command(
    "Start here",
    40,
    habits="launch start submit rerun",
    keeps_rest=True,
    pasted=remove_launcher,
    spelled=spell_for_click,
)
@on_hosts(names=False, readers=READERS, rare=("ui", "no_fold"))
def run(
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    ui: Ui = "auto",
    no_fold: NoFold = False,
    verbose: Verbose = False,
    options: RunOptions,
    explain: Annotated[
        bool, run_option("--explain", help="Show the plan and the reasons for it; start nothing.")
    ] = False,
    json: Annotated[bool, json_option("Same as --ui json.")] = False,
) -> None:
    """Run a PyTorch script on every host. mpirun starts the ranks; their output is shown live.

    Examples:
      ipexctl run -f hosts -ppn 2 train.py --lr 0.1
      ipexctl run -d --name bert train.py      # return when all ranks have started
      ipexctl run torchrun --nproc-per-node 2 train.py
      ipexctl run --restarts 3 --spares node05 train.py
      ipexctl run --explain -n 8 train.py      # show the plan only
    """
    from ipexctl.local.environment import hide_secrets
    from ipexctl.run.command.views import check_ui, make_view, print_event
    from ipexctl.run.outcome.run_result import DetachedRun
    from ipexctl.run.run import start_and_follow_run as verb

    _refuse_open_secrets(options)
    check_ui(ui)
    ui = "json" if json else ui
    if options.module and not options.script:
        raise InputError(
            "-m: the name of a module is missing",
            hint="ipexctl run -m MODULE",
            slug="module-missing",
        )
    configured = _note_configured(options)
    words, script_words = sys.argv[1:], (options.script, *options.args)
    typed = Typed(tuple(words[: len(words) - len(script_words)]), script_words)
    if not options.module:
        _refuse_hostfile(options, typed)
    options = replace(
        options,
        root=root,
        configured=frozenset(configured),
        confirm=send_agreed(yes=options.yes),
        lives_on=_lives_on(options),
        typed=typed,
    )
    hide_secrets(list(options.secret_env))  # before ssh or a program of its settings starts
    if explain:
        from ipexctl.run.command.plan_text import show_plan
        from ipexctl.run.gather_plan import gather_run_plan

        with _completed_hints(typed):
            planned = gather_run_plan(target, options)
        show_plan(planned, as_json=ui == "json")
        return
    view = make_view(ui, aside=options.detach, fold=not no_fold, verbose=verbose)
    options = replace(options, may_install=_may_ask(options) and ui != "json")
    try:
        result = _start_run(verb, target, view, options)
    except MissingPackages as missing:
        from ipexctl.run.command.install_missing import offer_install

        offer_install(missing, target, options)
        view = make_view(ui, aside=options.detach, fold=not no_fold, verbose=verbose)
        result = _start_run(verb, target, view, replace(options, may_install=False))
    if isinstance(result, DetachedRun) and ui == "json":
        print_event("left", run_id=result.run_id)
    elif options.detach and isinstance(result, DetachedRun):
        print(result.run_id)
    raise typer.Exit(result.exit_code)


def _start_run(verb: Any, target: Any, view: View, options: RunOptions) -> Any:
    from ipexctl.run.watch.run_watchers import count_interrupts

    leave = partial(end_command_at_once, view)
    with (
        _completed_hints(options.typed),
        count_interrupts(leave, lives_on=options.lives_on) as interrupts,
    ):
        return verb(target, options, view, interrupts)


def _may_ask(options: RunOptions) -> bool:
    """Decide whether the user can be asked about packages that hosts lack."""
    interactive = sys.stdin.isatty() and sys.stderr.isatty() and not environment().get("CI")
    return interactive and not (options.yes or options.force)


@contextmanager
def _completed_hints(typed: Typed) -> Iterator[None]:
    """Complete hints with commands: to start anyway, or with fewer ranks."""
    try:
        yield
    except IpexctlError as e:
        from ipexctl.base.retry_command import complete_hint

        complete_hint(e, typed)
        raise


def _note_configured(options: RunOptions) -> dict[str, str]:
    """Note and return variables that a settings file sets, such as those that `tune` found."""
    from ipexctl.cli.options import print_note
    from ipexctl.common.secret_names import is_secret_name
    from ipexctl.local.settings import load_settings

    setting = load_settings().get("run.env")
    variables = dict(sorted(setting.value.items() & options.env.items()) if setting else ())
    if setting and variables:
        words = (k if is_secret_name(k) else f"{k}={v}" for k, v in variables.items())
        print_note(f"variables from {setting.origin}: {', '.join(words)}")
    return variables


def _lives_on(options: RunOptions) -> bool:
    """Return whether the run continues when this command ends: without a terminal, only with -d."""
    from ipexctl.run.watch.fetch_outputs import compose_fetch_words

    if options.die_with_me and (options.detach or options.kept):
        other = "-d" if options.detach else "--restarts" if options.restarts else "--queue"
        raise InputError(
            f"{other} and --die-with-me cannot be combined",
            why="" if options.detach else "the hosts start the run without this command",
            hint="leave one of them out",
            slug="options-conflict",
        )
    fetched = shlex.join(compose_fetch_words(options))
    if options.detach and fetched:
        raise InputError(
            "-d cannot be combined with --fetch or --outputs",
            why="files are fetched when a run ends, and -d does not wait for that",
            hint=f"# leave out -d, or fetch when the run has ended: ipexctl fetch NAME {fetched}",
            slug="options-conflict",
        )
    terminal = sys.stdin.isatty() and sys.stderr.isatty() and not environment().get("CI")
    return options.detach or options.kept or (terminal and not options.die_with_me)


def _refuse_open_secrets(options: RunOptions) -> None:
    for name in options.secret_env.keys() & options.env.keys():
        raise InputError(
            f"{name} is given with both --env and --secret-env", slug="secret-also-in-env"
        )


def _refuse_hostfile(options: RunOptions, typed: Typed) -> None:
    """Refuse `ipexctl run hosts train.py`, where `hosts` is a file of hosts, and `-i hosts`, which
    is Ansible's."""
    from ipexctl.base import retry_command
    from ipexctl.local.hostfile_reader import is_hostfile
    from ipexctl.project.training_script import training_script

    for pattern in options.include:
        if is_hostfile(pattern):
            error = InputError(
                f"-i {pattern} would show only lines that match {pattern!r}",
                why=f"{pattern} is a hostfile, and one is given with -f",
                slug="hostfile-as-pattern",
            )
            raise error.with_meant("-i", "-f")
    script, args = options.script, options.args
    if script.endswith(".py") or not is_hostfile(script):
        return
    has_script = any(word == "-m" or os.path.isfile(word) for word in args)
    rest = args if has_script else (*args, training_script(Path.cwd()))
    command = replace(typed, options=(*typed.options, "-f", script), script=rest)
    raise InputError(
        f"{script} is a hostfile, not a script",
        why="a hostfile is given with -f",
        hint=retry_command.compose_retry_command(command, (), None),
        slug="hostfile-as-script",
    )


def end_command_at_once(view: View) -> None:
    """End the command at once, even if writing to stderr blocks."""

    def last_words() -> None:
        view.close()
        print("\nipexctl: detached; the hosts end the run when they lose contact", file=sys.stderr)

    thread = threading.Thread(target=last_words, daemon=True)
    thread.start()
    thread.join(0.3)
    os._exit(130)
