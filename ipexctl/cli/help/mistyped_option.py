"""Which option was meant: better words for Click's errors about options and arguments."""

from __future__ import annotations

import difflib
import re
from typing import Any

# what other tools call an option
_HABITS = {
    "--tail": "-n", "--lines": "-n", "--yaml": "--json", "--dry-run": "--check", "--ntasks": "-n",
    "--nodes": "--limit", "--nnodes": "--limit", "--ntasks-per-node": "-ppn", "--background": "-d",
}  # fmt: skip
_NO_INT = re.compile(r"is not a valid int(eger)?( range)?\.?")
_TOO_SMALL = re.compile(r"-?\d+ is not in the range x>=(\d+)\.?")
_NEAR = 0.75  # of a typo; less is another word


def explain_mistake(context: Any, error: Any, words: list[str]) -> None:
    """Better words for Click's error about a parameter that does not exist or is missing, or about
    one word too many."""
    known = context.command.get_params(context)
    names = {name for one in known for name in (*one.opts, *one.secondary_opts)}
    if hasattr(error, "possibilities"):
        if "--ppn" in names:
            names.add("-ppn")
        _unknown_option(error, words, names)
    elif hasattr(error, "param_type"):
        if error.param is not None and error.param.param_type_name == "argument":
            error.param_hint = error.param.make_metavar(ctx=context).removesuffix("...")
        error.message = _for_example(context)
    elif hasattr(error, "param_hint"):
        option = next(iter(getattr(error.param, "opts", ())), "")
        shown = f"is not a whole number. For example: {option} 2" if option[:1] == "-" else ""
        error.message = _NO_INT.sub(shown or "is not a whole number", error.message)
        error.message = _TOO_SMALL.sub(r"must be at least \1", error.message)
    elif "-f" in words and "--follow" in names and "unexpected extra" in error.message:
        error.message += ". -f follows the output here; for a hostfile, use --hostfile FILE"


def _unknown_option(error: Any, words: list[str], names: set[str]) -> None:
    typed = error.option_name
    if len(typed) == 2:  # Click reads -pnp as -p -n -p
        typed = next((word for word in words if word.startswith(typed)), typed)
    habit = _HABITS.get(typed)
    near = [habit] if habit in names else difflib.get_close_matches(typed, names, 1, _NEAR)
    meant = f". Did you mean {near[0]}?" if near else ""
    error.message, error.possibilities = f"No such option: {typed}{meant}", None


def _for_example(context: Any) -> str:
    from ipexctl.cli.help.help_examples import EXAMPLES

    examples = EXAMPLES.get(" ".join(context.command_path.split()[1:]), ())
    return f"For example: {examples[0].partition('  #')[0].rstrip()}" if examples else ""
