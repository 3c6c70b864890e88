"""Make the command to type again: as it was typed, and working when pasted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ipexctl.base import quoting
from ipexctl.base.typed_command import Typed
from ipexctl.common.secret_names import is_secret_name

_RANKS = ("-n", "-np", "--np")
_RANKS_IN_ONE = re.compile(r"(-n|--np=)\d+")
_LOGIN = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]*(?=@)")


def compose_retry_command(typed: Typed, lost: Sequence[str], n: int | None) -> str:
    """Return the command without the lost hosts, and with `n` ranks (None: unchanged). Values of
    variables that look secret are left out: --env NAME takes the local value.
    """
    if not typed.options:
        return ""
    words, added = list(_without_secrets(typed.options)), []
    if n is not None:
        words, found = _with_ranks(words, str(n))
        added = [] if found else ["-n", str(n)]
    words[1:1] = [*(word for host in lost for word in ("-x", host)), *added]
    return quoting.quote_for_pasting(("ipexctl", *words, *typed.script))


def _without_secrets(words: Sequence[str]) -> Iterator[str]:
    before = ""
    for word in words:
        option = "--env=" if word.startswith("--env=") else ""
        name, sign, _ = word.removeprefix(option).partition("=")
        given = sign and (option or before == "--env")
        secret = given and is_secret_name(name)
        yield f"{option}{name}" if secret else _LOGIN.sub("USER:PASSWORD", word)
        before = word


def _with_ranks(words: Sequence[str], n: str) -> tuple[list[str], bool]:
    """Replace the number of ranks where one was typed; also return whether one was."""
    made, found = [], False
    for before, word in zip(("", *words), words, strict=False):
        in_one = _RANKS_IN_ONE.fullmatch(word)
        found = found or bool(in_one) or before in _RANKS
        made.append(n if before in _RANKS else f"{in_one[1]}{n}" if in_one else word)
    return made, found
