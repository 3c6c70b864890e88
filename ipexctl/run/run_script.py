"""The script of a run and the project around it: what the ranks start, and what is sent."""

from __future__ import annotations

import os
import posixpath
import re
import secrets
import time
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ipexctl.base import retry_command
from ipexctl.base.located_errors import nearest_files
from ipexctl.base.option import options_of
from ipexctl.base.quoting import quote, quote_for_pasting
from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError, is_shown
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.local.bounded_read import read_prefix
from ipexctl.local.environment import environment
from ipexctl.local.import_roots import import_roots
from ipexctl.local.nearest_file import Note
from ipexctl.local.project_lock import env_choice_of
from ipexctl.local.run_options import RunOptions
from ipexctl.local.shipped_tables import known_launchers
from ipexctl.project import send_project
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.script_files.script_sources import read_sources
from ipexctl.user_code import frameworks
from ipexctl.user_code.frameworks import Frameworks
from ipexctl.user_code.launchers import not_scripts
from ipexctl.user_code.launchers.pasted_line import options_of_starter, words_before_python
from ipexctl.user_code.source import PythonSource

_MOST_NAMED = 8  # scripts


@dataclass(frozen=True)
class Script:
    project: send_project.Project
    argv: tuple[str, ...]  # words after the interpreter
    frameworks: Frameworks | None = None  # None: --no-sync, the code may not exist here
    sources: tuple[PythonSource, ...] = ()
    env: EnvChoice | None = None
    roots: tuple[str, ...] = ()  # folders of the project's packages, relative to where ranks start
    typed: Typed = Typed()  # the command to suggest: ipexctl's options before the script
    notes: tuple[str, ...] = ()

    def read_files(
        self, options: RunOptions, note: Note, *, contents: bool = True
    ) -> send_project.Snapshot | send_project.InPlace:
        """Return the files to send. `contents` False: none will be sent."""
        if not options.no_sync:
            snapshot = send_project.read_project(
                self.project, options.confirm, environment(), note, contents=contents
            )
            script = self.argv[0]
            if options.module and self.sources:
                script = posixpath.relpath(self.sources[0].path, self.project.cwd or ".")
            if script != "-m":
                send_project.check_sent(snapshot, script, environment())
            return snapshot
        if options.fetch or options.outputs:
            raise InputError(
                "--fetch and --outputs cannot be combined with --no-sync",
                why="they fetch files from the run's folder, which --no-sync does not create",
                slug="options-conflict",
            )
        return send_project.InPlace(self.project.start, "" if options.module else self.argv[0])


def read_script(options: RunOptions, *, fits: bool = True) -> Script:
    """Read the script that the options name: its sources, frameworks and environment."""
    script = _find_script(options)
    project = script.project
    _refuse_odd_name(os.fspath(project.start) if options.no_sync else project.cwd)
    script = replace(script, env=env_choice_of(script.project.start))
    if options.no_sync:
        return _add_suggested_command(script, options, fits=fits)
    sources = tuple(read_sources(script.project.folder, script.project.cwd, script.argv))
    detected = frameworks.of_run(sources, script.argv, options.env)
    folder, cwd = script.project.folder, script.project.cwd or "."
    roots = tuple(posixpath.relpath(root, cwd) for root in import_roots(folder))
    notes = _check_compression(options.compress, detected, force=options.force)
    script = replace(script, frameworks=detected, sources=sources, roots=roots, notes=notes)
    return _add_suggested_command(script, options, fits=fits)


def _refuse_odd_name(start: str) -> None:
    """Refuse a folder whose name the hosts would answer, and no answer may have such a name."""
    if not all(map(is_shown, start)):
        raise InputError(
            f"ranks cannot start in {start!r}",
            why="its name has a line end or another character that is not shown",
            hint="rename the folder",
            slug="folder-name-odd",
        )


def _check_compression(mode: str, detected: Frameworks | None, *, force: bool) -> tuple[str, ...]:
    """Raise InputError if DDP exchanges no gradients of the script; with `force`, return a note."""
    if mode == "off" or not detected or not detected.instead_of_ddp:
        return ()
    names = " and ".join(sorted(detected.instead_of_ddp))
    why = f"the script uses {names}, and only gradients of DistributedDataParallel are compressed"
    if force:
        return (f"--compress {mode}: {why}",)
    raise InputError(
        f"--compress {mode} has no effect with {names}",
        why=why,
        hint=f"leave out --compress\n{retry_command.FORCE}",
        slug="compress-needs-ddp",
    )


def _add_suggested_command(script: Script, options: RunOptions, *, fits: bool) -> Script:
    """Add the command to suggest, with ipexctl's own options before the script. `fits`: refuse
    arguments that the script's own parser would refuse."""
    own_options = frozenset[str]().union(*(source.options for source in script.sources))
    reordered = move_options_first(options.typed, options.args, own_options)
    certain = script.sources and not any(source.reads_argv for source in script.sources)
    if certain and not options.force:
        refuse_misplaced(options.typed, reordered)
        args_file = script.project.folder / f"{script.sources[0].path.removesuffix('.py')}.args"
        # HfArgumentParser reads more arguments from that file
        if fits and script.sources[0].arguments and not args_file.exists():
            from ipexctl.run.script.check_arguments import refuse_misfit

            refuse_misfit(script.sources, options.args, options.typed, move_words_first)
    note = describe_misplaced(options.typed, reordered)
    return replace(script, typed=reordered, notes=(*script.notes, *filter(None, (note,))))


def _find_script(options: RunOptions) -> Script:
    """Find the script or module and its project. Raise InputError if that is not Python."""
    cwd = Path.cwd()
    if options.module or not os.path.isfile(options.script):
        why, hint = not_scripts.explain_not_script((options.script, *options.args))
        if why:
            error = InputError(
                f"{options.script} is not a Python script", why=why, hint=hint, slug="not-a-script"
            )
            words = (options.script, *options.args)
            launchers = known_launchers()
            instead = options_of_starter(words, launchers)
            raise error.with_surplus(words_before_python(words, launchers), instead=instead)
    if options.module:
        project = (
            send_project.Project(cwd) if options.no_sync else send_project.project_of(cwd, cwd)
        )
        if not options.force:
            _refuse_module_elsewhere(options, project)
        return Script(project, ("-m", options.script, *options.args))
    path = Path(options.script)
    if options.no_sync:  # it may not exist here
        start = path.parent if path.is_absolute() and cwd not in path.parents else cwd
        return Script(send_project.Project(start), (_script_argument(path, start), *options.args))
    if not os.path.isfile(path):
        raise _explain_missing_script(path, options)
    _refuse_other_file(path)
    script = path.resolve()  # Python also uses the folder of a link's target
    project = send_project.project_of(script.parent, cwd)
    return Script(project, (_script_argument(script, project.start), *options.args))


def _refuse_module_elsewhere(options: RunOptions, project: send_project.Project) -> None:
    """Refuse a module that Python would not find, and that one folder of the project has."""
    top = options.script.partition(".")[0]
    modules = (f"{top}.py", f"{top}/__init__.py")
    places = [project.folder / place for place in send_project.import_places(project)]
    if any((place / module).exists() for place in places for module in modules):
        return
    found = [path for module in modules for path in project.folder.glob(f"*/{module}")]
    if len(found) == 1:
        folder = found[0].relative_to(project.folder).parts[0]
        go = quote(("cd", os.path.relpath(project.folder / folder)))
        again = retry_command.compose_retry_command(options.typed, (), None)
        raise InputError(
            f"there is no module {top} in {Path.cwd()}",
            why=f"it is in {project.folder / folder}",
            hint=f"{go}{f' && {again}' if again else ''}",
            slug="script-missing",
        )


def _refuse_other_file(script: Path) -> None:
    with suppress(OSError):
        head = read_prefix(script, 256).decode("utf-8", "replace").partition("\n")[0]
        why, hint = not_scripts.meant_by_file(os.fspath(script), head)
        if why:
            raise InputError(
                f"{script} is not a Python script", why=why, hint=hint, slug="not-a-script"
            )


def _explain_missing_script(typed: Path, options: RunOptions) -> InputError:
    """Make the error for a missing script, with the command that was probably meant."""
    is_folder = os.path.isdir(typed)
    folder = typed if is_folder else typed.parent
    names = [path.name for path in folder.glob("*.py")]
    alike = names if is_folder else nearest_files(typed.name, names)
    candidates = [str(folder / name) for name in alike]
    if not is_folder:
        candidates = [*_same_name_elsewhere(typed.name), *candidates]
    near = candidates[0] if candidates and (len(names) == 1 or not is_folder) else ""
    found = replace(options.typed, script=(near, *options.args))
    hint = retry_command.compose_retry_command(found, (), None) if near else ""
    if not near:
        hint = f"# scripts there: {', '.join(sorted(names)[:_MOST_NAMED]) or 'none'}"
    if is_folder:
        return InputError(
            f"{typed} is a folder", why="name the script itself", hint=hint, slug="script-is-folder"
        )
    return InputError(
        f"there is no script {typed}",
        why=f"looked in {Path.cwd() / typed.parent}",
        hint=hint,
        slug="script-missing",
    ).with_meant("", "-m" if known_launchers().of_module(str(typed)) else "")


def _same_name_elsewhere(name: str) -> list[str]:
    """Return the script of that name in the current folder, or else in one of the next folders
    above or below, if only one is."""
    here = Path.cwd()
    if not name.endswith(".py"):
        return []
    if os.path.isfile(here / name):  # Path.is_file raises OSError for too long a name
        return [name]
    found = [path for folder in here.parents[:2] if os.path.isfile(path := folder / name)]
    for pattern in ("[!.]*", "[!.]*/[!.]*"):
        found += [path for folder in here.glob(pattern) if os.path.isfile(path := folder / name)]
    return [os.path.relpath(found[0])] if len(found) == 1 else []


def _script_argument(script: Path, start: Path) -> str:
    """Return the script's path as the ranks use it."""
    name = os.path.relpath(script, start) if script.is_absolute() else os.fspath(script)
    return f"./{name}" if name.startswith("-") else name  # or Python takes it for an option


# --- options of ipexctl after the script: `run train.py -n 6` ------------------------------------

# how many ranks, and on which hosts, including MPI's spellings
_OPTIONS = frozenset(
    {"-n", "-np", "--np", "-ppn", "--ppn", "--nproc-per-node", "--nproc_per_node", "-f", "-F"}
    | {"-hostfile", "--hostfile", "-machinefile", "--machinefile", "-H", "-hosts", "--hosts"}
    | {"--ssh-config"}
)
_FLAGS = ("--queue",)


def move_options_first(typed: Typed, args: Sequence[str], own_options: Container[str]) -> Typed:
    """Return the command with such options before the script. `own_options`: those that the script
    defines, without dashes."""
    typed_options = {word.partition("=")[0] for word in typed.options}
    words = find_leading_options(args, own_options, typed_options)
    if not words or not typed_options or "--" in typed_options:
        return typed
    script = (*typed.script[:1], *args[len(words) :])
    return replace(typed, options=(*typed.options, *words), script=script)


def refuse_misplaced(typed: Typed, reordered: Typed) -> None:
    """Raise InputError for ipexctl's options after a script that does not define them."""
    if words := quote_for_pasting(reordered.options[len(typed.options) :]):
        script = quote_for_pasting(typed.script[:1])
        raise InputError(
            f"{words} after {script} would go to the script, which has no such option",
            why="ipexctl's own options go before the script",
            hint=f"{retry_command.compose_retry_command(reordered, (), None)}\n"
            f"# -- before {script} passes them to it",
            slug="options-after-script",
        )


def describe_misplaced(typed: Typed, reordered: Typed) -> str:
    """Return a note about options that look misplaced; "" if there are none."""
    words = reordered.options[len(typed.options) :]
    if not words:
        return ""
    verb = "goes" if len(words) <= 2 else "go"
    return (
        f"{quote_for_pasting(words)} {verb} to {quote_for_pasting(typed.script[:1])}; "
        "ipexctl's own options go before the script: "
        f"{retry_command.compose_retry_command(reordered, (), None)}"
    )


def find_leading_options(
    args: Sequence[str], own_options: Container[str], typed_options: Container[str]
) -> Sequence[str]:
    """Return the arguments up to the first that is not one of ipexctl's options. `typed_options`:
    options before the script; if repeated after it, they are the script's."""
    index = 0
    while index < len(args):
        name, sign, _ = args[index].partition("=")
        is_flag = args[index] in _FLAGS
        recognized = (name in _OPTIONS or is_flag) and name not in typed_options
        if not recognized or name.lstrip("-").replace("-", "_") in own_options:
            break
        alone = sign or is_flag
        if not alone and (index + 1 == len(args) or args[index + 1].startswith("-")):
            break
        index += 1 if alone else 2
    return args[:index]


def new_run_id() -> str:
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)


_REFUSED = re.compile(r"unrecognized arguments: (.+)")  # argparse


def move_refused_first(typed: Typed, lines: Sequence[str]) -> Typed:
    """Return the command with the arguments that the script refused before it, if all of them are
    options of `run`. `lines`: the last ones of a rank."""
    match = _REFUSED.search(lines[-1]) if lines else None
    return move_words_first(typed, match[1].split() if match else [])


def move_words_first(typed: Typed, refused: Sequence[str]) -> Typed:
    """Return the command with these arguments before the script, if they are options of `run`."""
    refused, script = list(refused), list(typed.script)
    starts = (i for i in range(1, len(script)) if script[i : i + len(refused)] == refused)
    start = next(starts, 0)
    if not refused or not start or "--" in typed.options or not _are_own_options(refused):
        return typed
    del script[start : start + len(refused)]
    return replace(typed, options=(*typed.options, *refused), script=tuple(script))


def _are_own_options(words: Sequence[str]) -> bool:
    """Return whether these are options of `run` with their values."""
    metavars = {flag: o.metavar for o in options_of(RunOptions).values() for flag in o.flags}
    metavars |= dict.fromkeys((*_OPTIONS, "-l", "--limit", "-x", "--exclude"), "VALUE")
    remaining = list(words)
    while remaining:
        name, sign, _ = remaining.pop(0).partition("=")
        if name not in metavars or (sign and not metavars[name]):
            return False
        if metavars[name] and not sign and (not remaining or remaining.pop(0).startswith("-")):
            return False
    return True
