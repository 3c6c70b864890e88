"""Make the command to type again: as it was typed, and working when pasted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ipexctl.base import quoting
from ipexctl.base.typed_command import Typed
from ipexctl.common.secret_names import is_secret_name
from ipexctl.errors import IpexctlError

_RANKS = ("-n", "-np", "--np")
_PER_HOST = ("-ppn", "--ppn", "--nproc-per-node", "--nproc_per_node")
_RANKS_IN_ONE = re.compile(r"(-n|--np=)\d+")
_NUMBER_IN_ONE = re.compile(r"(-n|--[a-z_-]+=)(\d+)")
_LOGIN = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]*(?=@)")


def compose_retry_command(
    typed: Typed,
    lost: Sequence[str],
    n: int | None,
    *,
    fewer: int | None = None,
    ppn: int | None = None,
    hosts: int | None = None,
    spares: Sequence[str] | None = None,
    resume: str = "",
) -> str:
    """Return the command without the lost hosts, and with `n` ranks (None: unchanged). Values of
    variables that look secret are left out, and the command of --notify: --env NAME takes the local
    value.

    `fewer`, `ppn`: at most this number of ranks, and on each host, if one was typed; `hosts`: at
    most this --min-hosts; `spares`: those that are left, if any is lost; `resume`: the run whose
    checkpoint it loads.
    """
    if not typed.options:
        return ""
    words, added = list(without_secrets(typed.options)), []
    if fewer is not None:
        words = _with_at_most(words, _RANKS, fewer)
    if ppn is not None:
        words = _with_at_most(words, _PER_HOST, ppn)
    if hosts is not None:
        words = _with_at_most(words, ("--min-hosts",), hosts)
    if spares is not None:
        words = _without_option(words, "--spares")
        added += [word for host in spares for word in ("--spares", host)]
    if resume:
        words = _without_option(words, "--resume")
        added += ["--resume", resume]
    if n is not None:
        words, replaced = _with_ranks(words, str(n))
        added += [] if replaced else ["-n", str(n)]
    words[1:1] = [*(word for host in lost for word in ("-x", host)), *added]
    return quoting.quote_for_pasting(("ipexctl", *words, *typed.script))


FORCE = "or --force to start anyway"  # in hints of code that does not know the command


def with_force(typed: Typed) -> str:
    """Return the command with --force, as a line to paste; "" if it was called from a program."""
    command, *options = typed.options or ("",)
    forced = Typed((command, "--force", *options), typed.script) if command else Typed()
    words = compose_retry_command(forced, (), None)
    return f"{words}   # start anyway" if words else ""


def complete_hint(error: IpexctlError, typed: Typed) -> None:
    """Put commands into the hint of an error of code that does not know what was typed: with fewer
    ranks instead of the options that the hint begins with, and with --force where FORCE is."""
    ranks, per_host = error.fewer
    if ranks:
        fitting = compose_retry_command(typed, (), None, fewer=ranks, ppn=per_host or None)
        if fitting != compose_retry_command(typed, (), None):
            _, gap, words = error.hint.partition("   ")
            error.hint = f"{fitting}{gap}{words}"
    command = with_force(typed)
    words, found, _ = error.hint.partition(FORCE)
    if found and command:
        error.hint = "\n".join(filter(None, (words.rstrip(", ;\n"), command)))


def without_secrets(words: Sequence[str]) -> Iterator[str]:
    previous = ""
    for word in words:
        option = "--env=" if word.startswith("--env=") else ""
        name, sign, _ = word.removeprefix(option).partition("=")
        assigned = sign and (option or previous == "--env")
        secret = assigned and is_secret_name(name)
        if previous == "--notify":
            word = "COMMAND"
        elif word.startswith("--notify="):
            word = "--notify=COMMAND"
        yield f"{option}{name}" if secret else _LOGIN.sub("USER:PASSWORD", word)
        previous = word


def _without_option(words: Sequence[str], option: str) -> list[str]:
    pairs = zip(("", *words), words, strict=False)
    return [
        word
        for previous, word in pairs
        if option not in (previous, word) and not word.startswith(f"{option}=")
    ]


def _with_at_most(words: Sequence[str], options: Sequence[str], most: int) -> list[str]:
    """Replace the values of these options that are larger numbers."""
    changed = []
    for previous, word in zip(("", *words), words, strict=False):
        combined = _NUMBER_IN_ONE.fullmatch(word)
        if combined and combined[1].rstrip("=") in options:
            word = f"{combined[1]}{min(int(combined[2]), most)}"
        elif previous in options and word.isdigit():
            word = str(min(int(word), most))
        changed.append(word)
    return changed


def _with_ranks(words: Sequence[str], n: str) -> tuple[list[str], bool]:
    """Replace the number of ranks where one was typed; also return whether one was."""
    changed, replaced = [], False
    for previous, word in zip(("", *words), words, strict=False):
        combined = _RANKS_IN_ONE.fullmatch(word)
        replaced = replaced or bool(combined) or previous in _RANKS
        changed.append(n if previous in _RANKS else f"{combined[1]}{n}" if combined else word)
    return changed, replaced
