"""ipexctl's options after the script, where they are the script's: `ipexctl run train.py -n 6`."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ipexctl.base.quoting import quote_for_pasting
from ipexctl.base.typed_command import Typed
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
