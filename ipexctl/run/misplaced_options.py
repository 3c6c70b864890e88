"""ipexctl's options after the script, where they go to the script: `run train.py -n 6`."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ipexctl.base.quoting import quote_for_pasting
from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError
from ipexctl.run.outcome import retry_command

# how many ranks, and on which hosts; MPI's spellings with them
_OPTIONS = frozenset(
    {"-n", "-np", "--np", "-ppn", "--ppn", "--nproc-per-node", "--nproc_per_node", "-f", "-F"}
    | {"-hostfile", "--hostfile", "-machinefile", "--machinefile", "-H", "-hosts", "--hosts"}
    | {"--ssh-config"}
)


def meant(typed: Typed, args: Sequence[str], own: Container[str]) -> Typed:
    """The command with such options before the script. `own`: options that the script defines,
    without dashes."""
    given = {word.partition("=")[0] for word in typed.options}
    words = leading(args, own, given)
    if not words or not given or "--" in given:
        return typed
    script = (*typed.script[:1], *args[len(words) :])
    return replace(typed, options=(*typed.options, *words), script=script)


def check(typed: Typed, meant: Typed) -> None:
    """Raises InputError for such options of a script that does not define them."""
    if words := quote_for_pasting(meant.options[len(typed.options) :]):
        script = quote_for_pasting(typed.script[:1])
        own = replace(typed, options=(*typed.options, "--"))
        raise InputError(
            f"{words} after {script} would go to the script, which has no such option",
            why="ipexctl's own options go before the script",
            hint=f"{retry_command.command(meant, (), None)}\n"
            f"{retry_command.command(own, (), None)}   # if {script} reads it all the same",
            slug="options-after-script",
        )


def note(typed: Typed, meant: Typed) -> str:
    """ "" where nothing looks so."""
    words = meant.options[len(typed.options) :]
    if not words:
        return ""
    verb = "goes" if len(words) <= 2 else "go"
    return (
        f"{quote_for_pasting(words)} {verb} to {quote_for_pasting(typed.script[:1])}; "
        f"ipexctl's own options go before the script: {retry_command.command(meant, (), None)}"
    )


def leading(args: Sequence[str], own: Container[str], given: Container[str]) -> Sequence[str]:
    """The arguments that look like ours, up to the first that does not. `given`: before the
    script; the same option after it is the script's."""
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
