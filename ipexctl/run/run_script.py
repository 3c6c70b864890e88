"""The script of a run and the project around it: what the ranks start, and what is sent."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ipexctl.base import retry_command
from ipexctl.base.located_errors import nearest_files
from ipexctl.base.quoting import quote_for_pasting
from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.local.bounded_read import read_prefix
from ipexctl.local.environment import environment
from ipexctl.local.import_roots import import_roots
from ipexctl.local.nearest_file import Note
from ipexctl.local.project_lock import env_choice_of
from ipexctl.local.run_options import RunOptions
from ipexctl.project import send_project
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.script_files.script_sources import read_sources
from ipexctl.user_code import frameworks
from ipexctl.user_code.frameworks import Frameworks
from ipexctl.user_code.launchers import not_scripts
from ipexctl.user_code.source import PythonSource


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

    def files(
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


def script_of(options: RunOptions) -> Script:
    found = _script_of(options)
    found = replace(found, env=env_choice_of(found.project.start))
    if options.no_sync:
        return _with_command(found, options)
    sources = tuple(read_sources(found.project.folder, found.project.cwd, found.argv))
    used = frameworks.of_run(sources, found.argv, options.env)
    folder, cwd = found.project.folder, found.project.cwd or "."
    roots = tuple(posixpath.relpath(root, cwd) for root in import_roots(folder))
    notes = _compression_notes(options.compress, used, force=options.force)
    found = replace(found, frameworks=used, sources=sources, roots=roots, notes=notes)
    return _with_command(found, options)


def _compression_notes(mode: str, used: Frameworks | None, *, force: bool) -> tuple[str, ...]:
    """Raise InputError if DDP exchanges no gradients of the script; with `force`, return a note."""
    if mode == "off" or not used or not used.instead_of_ddp:
        return ()
    what = " and ".join(sorted(used.instead_of_ddp))
    why = f"the script uses {what}, and only gradients of DistributedDataParallel are compressed"
    if force:
        return (f"--compress {mode}: {why}",)
    raise InputError(
        f"--compress {mode} has no effect with {what}",
        why=why,
        hint="leave out --compress, or --force to start anyway",
        slug="compress-needs-ddp",
    )


def _with_command(script: Script, options: RunOptions) -> Script:
    own = frozenset[str]().union(*(source.options for source in script.sources))
    meant = options_first(options.typed, options.args, own)
    known = script.sources and not any(source.reads_argv for source in script.sources)
    if known and not options.force:
        refuse_misplaced(options.typed, meant)
    note = misplaced_note(options.typed, meant)
    return replace(script, typed=meant, notes=(*script.notes, *filter(None, (note,))))


def _script_of(options: RunOptions) -> Script:
    here = Path.cwd()
    if options.module or not os.path.isfile(options.script):
        why, hint = not_scripts.explain_not_script((options.script, *options.args))
        if why:
            raise InputError(
                f"{options.script} is not a Python script", why=why, hint=hint, slug="not-a-script"
            )
    if options.module:
        project = (
            send_project.Project(here) if options.no_sync else send_project.project_of(here, here)
        )
        return Script(project, ("-m", options.script, *options.args))
    given = Path(options.script)
    if options.no_sync:  # it may not exist here
        start = given.parent if given.is_absolute() and here not in given.parents else here
        return Script(send_project.Project(start), (_script_argument(given, start), *options.args))
    if not os.path.isfile(given):
        raise _no_script(given, options)
    _refuse_other_file(given)
    script = given.resolve()  # Python also uses the folder of a link's target
    project = send_project.project_of(script.parent, here)
    return Script(project, (_script_argument(script, project.start), *options.args))


def _refuse_other_file(given: Path) -> None:
    with suppress(OSError):
        head = read_prefix(given, 256).decode("utf-8", "replace").partition("\n")[0]
        why, hint = not_scripts.meant_by_file(os.fspath(given), head)
        if why:
            raise InputError(
                f"{given} is not a Python script", why=why, hint=hint, slug="not-a-script"
            )


def _no_script(given: Path, options: RunOptions) -> InputError:
    is_folder = os.path.isdir(given)
    folder = given if is_folder else given.parent
    names = [path.name for path in folder.glob("*.py")]
    alike = names if is_folder and len(names) == 1 else nearest_files(given.name, names)
    near = next(iter(alike), "")
    if hint := _hosts_apart(options):
        return InputError(
            f"there is no script {given}", why="-H takes one list", hint=hint, slug="hosts-apart"
        )
    found = str(folder / near) if near else given.name if os.path.isfile(given.name) else "SCRIPT"
    meant = (found, *options.args)
    hint = retry_command.compose_retry_command(replace(options.typed, script=meant), (), None)
    if is_folder:
        return InputError(
            f"{given} is a folder", why="name the script itself", hint=hint, slug="script-is-folder"
        )
    return InputError(
        f"there is no script {given}",
        why=f"looked in {Path.cwd() / given.parent}",
        hint=hint,
        slug="script-missing",
    )


def _hosts_apart(options: RunOptions) -> str:
    """Return the command that `-H node1 node2 train.py` meant; "" for anything else."""
    before, args = options.typed.options, options.args
    if len(before) < 2 or before[-2] not in ("-H", "--hosts") or "." in options.script:
        return ""
    n = next((i for i, word in enumerate(args) if os.path.isfile(word)), -1)
    if n < 0:
        return ""
    hosts = ",".join((before[-1], options.script, *args[:n]))
    typed = replace(options.typed, options=(*before[:-1], hosts), script=args[n:])
    return retry_command.compose_retry_command(typed, (), None)


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


def options_first(typed: Typed, args: Sequence[str], own: Container[str]) -> Typed:
    """Return the command with such options before the script. `own`: options that the script
    defines, without dashes."""
    given = {word.partition("=")[0] for word in typed.options}
    words = leading_own_options(args, own, given)
    if not words or not given or "--" in given:
        return typed
    script = (*typed.script[:1], *args[len(words) :])
    return replace(typed, options=(*typed.options, *words), script=script)


def refuse_misplaced(typed: Typed, meant: Typed) -> None:
    """Raise InputError for such options if the script does not define them."""
    if words := quote_for_pasting(meant.options[len(typed.options) :]):
        script = quote_for_pasting(typed.script[:1])
        own = replace(typed, options=(*typed.options, "--"))
        raise InputError(
            f"{words} after {script} would go to the script, which has no such option",
            why="ipexctl's own options go before the script",
            hint=f"{retry_command.compose_retry_command(meant, (), None)}\n"
            f"{retry_command.compose_retry_command(own, (), None)}   # if {script} reads it too",
            slug="options-after-script",
        )


def misplaced_note(typed: Typed, meant: Typed) -> str:
    """Return a note about options that look misplaced; "" if there are none."""
    words = meant.options[len(typed.options) :]
    if not words:
        return ""
    verb = "goes" if len(words) <= 2 else "go"
    return (
        f"{quote_for_pasting(words)} {verb} to {quote_for_pasting(typed.script[:1])}; "
        "ipexctl's own options go before the script: "
        f"{retry_command.compose_retry_command(meant, (), None)}"
    )


def leading_own_options(
    args: Sequence[str], own: Container[str], given: Container[str]
) -> Sequence[str]:
    """Return the arguments that look like ipexctl's, up to the first that does not. `given`:
    options before the script; if repeated after it, they are the script's."""
    at = 0
    while at < len(args):
        name, sign, _ = args[at].partition("=")
        ours = name in _OPTIONS and name not in given
        if not ours or name.lstrip("-").replace("-", "_") in own:
            break
        if not sign and (at + 1 == len(args) or args[at + 1].startswith("-")):
            break
        at += 1 if sign else 2
    return args[:at]
