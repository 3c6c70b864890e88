"""The help of a command: its options in groups, and examples at the end."""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ipexctl.cli.streams import fold_for_stderr

# in the order of the help; options without a group are "Options"
GROUPS = (
    "Options",
    "Ranks",
    "Run",
    "Stack",
    "Packages",
    "Files",
    "Hosts",
    "SSH",
    "Output",
)
SHARED = ("Hosts", "SSH")  # the options of nearly every command: a short help only names them
EVERYTHING = "all"  # `--help all` explains every option
_WIDEST = 22  # longer options get a line of their own
_OTHER_NAMES = re.compile(r"(--[\w-]+)(?:, --[\w-]+)+")
_RANGE = re.compile(r"(?:; |(?<=\[))x>=\d+(?=\])")


def option_group(group: str) -> Callable[..., Any]:
    """Return typer.Option for the options of one group."""
    assert group in GROUPS
    return functools.partial(typer.Option, rich_help_panel=group)


run_option = option_group("Run")
hosts_option = option_group("Hosts")
output_option = option_group("Output")


def _help_record(parameter: Any, context: Any) -> tuple[str, str] | None:
    """Return names and text of a parameter; aliases are at most mentioned in the text."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    names, text = record
    text = _RANGE.sub("", text).replace("  []", "").replace("  [required]", "")
    return _OTHER_NAMES.sub(r"\1", names).removesuffix("..."), text


def _help_sections(command: Any, context: Any) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the sections; --help itself is in the one with the output options."""
    rows: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *GROUPS)}
    help_option = command.get_help_option(context)
    for parameter in command.get_params(context):
        record = _help_record(parameter, context)
        if record is None or (help_option is not None and parameter.name == help_option.name):
            continue
        if not _is_left_out(parameter, context):
            rows[_section_of(parameter)].append(record)
    if help_option is not None and (record := _help_record(help_option, context)):
        group = "Output" if rows["Output"] else "Options"
        rows[group].append((record[0], "Show this help."))
    return [(name, records) for name, records in rows.items() if records]


def _section_of(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return getattr(parameter, "rich_help_panel", None) or "Options"


def _is_left_out(parameter: Any, context: Any) -> bool:
    """Decide whether only `--help all` explains an option: a rare one, or one of many commands."""
    rare = getattr(context.command.callback, "rare", ())
    hidden = parameter.name in rare or _section_of(parameter) in SHARED
    return hidden and not context.meta.get(EVERYTHING)


def write_sections(command: Any, context: Any, formatter: Any) -> None:
    """Write the sections, all with the same columns; at last the names of shared options."""
    sections = _help_sections(command, context)
    widths = [len(names) for _, rows in sections for names, _ in rows if len(names) <= _WIDEST]
    width = max(widths, default=0)
    for title, rows in sections:
        with formatter.section(title):
            formatter.write_dl([(n.ljust(width), text) for n, text in rows], col_max=width)
    by_group: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        if (group := _section_of(parameter)) in SHARED and _is_left_out(parameter, context):
            by_group.setdefault(group, []).append("/".join(parameter.opts[:2]))
    if by_group:
        with formatter.section(" and ".join(by_group)):
            for names in by_group.values():
                formatter.write_text(", ".join(names))


def write_examples(command: Any, context: Any, formatter: Any) -> None:
    """Write the last section, and how to see what was left out."""
    with formatter.section("Examples"):
        formatter.write(f"{command.epilog}\n")
    if any(_is_left_out(parameter, context) for parameter in command.get_params(context)):
        formatter.write(f"\nAll options: {context.command_path} --help {EVERYTHING}\n")


def _usage_line(command: Any, context: Any) -> str:
    """Return the usage as man pages spell it: SCRIPT [ARGS]... ."""
    words = ["[OPTIONS]"]
    for parameter in command.get_params(context):
        if parameter.param_type_name == "argument":
            name = parameter.make_metavar(ctx=context).removesuffix("...")
            name = name if parameter.required or name.startswith("[") else f"[{name}]"
            words.append(name if parameter.nargs == 1 else f"{name}...")
    return " ".join(words)


class HelpCommand(TyperCommand):
    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Make the settings, which the first context has in `obj`, defaults of the options."""
        if info_name and parent and (settings := parent.find_root().obj):
            from ipexctl.local.settings import option_defaults

            extra["default_map"] = option_defaults(settings, info_name)
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)
        ctx.meta[EVERYTHING] = any(
            word in ctx.help_option_names and following == EVERYTHING
            for word, following in itertools.pairwise(words)
        )
        try:
            return super().parse_args(ctx, args)
        except Exception as e:
            if hasattr(e, "message"):
                _fold_message(e, explain_mistake(ctx, e, words))
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as e:
            declared = self.callback.declaration.interrupted  # type: ignore[union-attr]
            if message := str(e) or (declared and f"interrupted; {declared}"):
                print(f"\r{message}" if sys.stderr.isatty() else message, file=sys.stderr)
            raise

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        formatter.write_usage(ctx.command_path, _usage_line(self, ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_sections(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        write_examples(self, ctx, formatter)


class HelpGroup(TyperGroup):
    """Lists its commands first: they are what users look for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as e:
            if near := next(iter(getattr(e, "possibilities", None) or ()), ""):
                _offer_option(e, near)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not args or args[0] in self.commands or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        from ipexctl.local.corrected_command import command_instead, command_that_runs

        line = "run" in self.commands and command_that_runs(sys.argv[1:])
        near = "run" if line else self._similar_command(ctx, args[0])
        guess = f" Did you mean '{near}'?" if near else ""
        try:
            ctx.fail(f"No such command '{args[0]}'.{guess}")
        except Exception as e:
            line = line or (near and command_instead(sys.argv[1:], args[0], near.split()))
            _fold_message(e, [line] if line else [])
            raise

    def _similar_command(self, ctx: Any, typed: str) -> str:
        """Return the command that has this name, or a similar one, here or in other tools, with an
        option where that is meant; one that deletes or ends something only for its own name in
        another tool, or a slip of one letter."""
        from ipexctl.base.located_errors import is_one_slip, nearest_word

        names: dict[str, str] = {}
        for name in self.commands:
            callback = self.get_command(ctx, name).callback  # type: ignore[union-attr]
            declared = getattr(callback, "declaration", None)
            for habit in declared.habits.split() if declared else ():
                word, _, option = habit.partition("=")
                names[word] = f"{name} {option}".rstrip()
        names.update({name: name for name in self.commands})
        for word in [word for word, name in names.items() if name in _ENDS_SOMETHING]:
            if not is_one_slip(typed.lower(), word):
                del names[word]
        return names.get(nearest_word(typed, names), "")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        write_sections(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        write_examples(self, ctx, formatter)


# --- clearer messages for Click's errors about options and arguments -----------------------------

# other tools' names of an option
_HABITS = {
    "--tail": "-n",
    "--lines": "-n",
    "--yaml": "--json",
    "--dry-run": "--check",
    "--ntasks": "-n",
    "--nodes": "--limit",
    "--ntasks-per-node": "-ppn",
    "--background": "-d",
    "--name": "--as",
}
_NO_INT = re.compile(r"is not a valid int(eger)?( range)?\.?")
_NUMBERS = {"one": "1", "two": "2", "three": "3", "four": "4", "six": "6", "eight": "8"}
_TOO_SMALL = re.compile(r"-?\d+ is not in the range x>=(\d+)\.?")
_ENDS_SOMETHING = frozenset({"rm", "prune", "remove", "stop", "down"})
_NEAR = 0.75  # similarity of a typo; below that it is another word


def explain_mistake(context: Any, error: Any, words: list[str]) -> list[str]:
    """Replace Click's error about a parameter that does not exist or is missing, or about a surplus
    word, by a clearer one. Return the commands that may be meant."""
    parameters = context.command.get_params(context)
    names = {name for item in parameters for name in (*item.opts, *item.secondary_opts)}
    if hasattr(error, "possibilities"):
        if "--ppn" in names:
            names.add("-ppn")
        return _unknown_option(context, error, words, names)
    if hasattr(error, "param_type"):
        if error.param is not None and error.param.param_type_name == "argument":
            error.param_hint = error.param.make_metavar(ctx=context).removesuffix("...")
        if error.param_hint == "SCRIPT":
            from ipexctl.local.corrected_command import commands_with_script

            if commands := commands_with_script(sys.argv[1:]):
                error.message = ""
                return commands
        error.message = _for_example(context)
    elif hasattr(error, "param_hint"):
        option = next(iter(getattr(error.param, "opts", ())), "")
        problem = f"is not a whole number. For example: {option} 2" if option[:1] == "-" else ""
        error.message = _NO_INT.sub(problem or "is not a whole number", error.message)
        wrong, right = _value_meant(error.message)
        error.message = _TOO_SMALL.sub(r"must be at least \1", error.message)
        if option and right:
            from ipexctl.local.corrected_command import command_with_value

            spellings = [*error.param.opts, *["-ppn"] * ("--ppn" in error.param.opts)]
            return [command_with_value(sys.argv[1:], spellings, wrong, right)]
    elif "unexpected extra" in error.message:
        arguments = [item for item in parameters if item.param_type_name == "argument"]
        if "-f" in words and "--follow" in names:
            error.message += ". -f follows the output here; for a hostfile, use --hostfile FILE"
        elif len(arguments) == 1:
            word = arguments[0].human_readable_name.strip("[]")
            error.message += f". {context.command_path} takes one {word}"
        elif not arguments and "-n" in names and "-n" not in words:
            from ipexctl.local.corrected_command import command_instead

            (number,) = re.findall(r"\((\d+)\)$", error.message) or ("",)
            error.message += f". Did you mean -n {number}?" if number else ""
            return [command_instead(sys.argv[1:], number, ("-n", number)) if number else ""]
    return []


def _value_meant(message: str) -> tuple[str, str]:
    """Return the value in Click's message that is none, and the one that was meant; "", "" if that
    is not certain."""
    if match := re.search(r"'(\w+)' is not a whole number", message):
        return match[1], _NUMBERS.get(match[1].lower(), "")
    if match := re.search(r"'((\d+)(s|m|h|d)[a-z]{2,6})' is not a duration", message):
        return match[1], match[2] + match[3]
    match = re.search(r"(-?\d+) is not in the range x>=(\d+)", message)
    return (match[1], match[2]) if match else ("", "")


def _fold_message(error: Any, commands: Sequence[str]) -> None:
    """Wrap the message, which Click prints after "Error: ", and add lines to paste."""
    lines = fold_for_stderr(f"Error: {error.format_message()}", "  ")
    for i, command in enumerate(filter(None, commands)):
        lines.append(f"  {'try:' if i == 0 else '':5}{command}")
    error.format_message = lambda: "\n".join(lines).removeprefix("Error: ")


def _offer_option(error: Any, near: str) -> None:
    """Say which option of a group of commands may be meant."""
    from ipexctl.local.corrected_command import corrected_command

    typed = error.option_name
    error.message, error.possibilities = f"No such option: {typed}. Did you mean {near}?", None
    _fold_message(error, [corrected_command(sys.argv[1:], typed, near)])


def _unknown_option(context: Any, error: Any, words: list[str], names: set[str]) -> list[str]:
    from ipexctl.local.corrected_command import (
        command_of_launcher,
        command_of_script,
        corrected_command,
    )

    typed = error.option_name
    if len(typed) == 2:  # Click reads -pnp as -p -n -p
        typed = next((word for word in words if word.startswith(typed)), typed)
    import difflib

    if context.command.callback.declaration.pasted:
        script, command = command_of_script(sys.argv[1:], typed)
        if script:
            error.message = f"No such option: {typed}. It is an option of {script}"
            error.possibilities = None
            return [command]
    habit = _HABITS.get(typed)
    matches = [habit] if habit in names else difflib.get_close_matches(typed, names, 1, _NEAR)
    value = next((after for word, after in itertools.pairwise(words) if word == typed), "")
    takes_it = habit != "--limit" or not value.isdecimal()  # --limit takes names
    fits = bool(matches) and takes_it
    command = corrected_command(sys.argv[1:], typed, matches[0]) if fits else ""
    guess = f". Did you mean {matches[0]}?" if matches else ""
    if not matches and context.command.callback.declaration.pasted:
        launcher, command = command_of_launcher(sys.argv[1:], typed)
        guess = f". It is an option of {launcher}" if launcher else ""
    error.message, error.possibilities = f"No such option: {typed}{guess}", None
    return [command]


def _for_example(context: Any) -> str:
    first = context.command.epilog.partition("\n")[0].partition("  #")[0].strip()
    return f"For example: {first}" if first else ""
