"""The command that was probably meant: as it was typed, with one word corrected or added."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ipexctl.base.quoting import quote_for_pasting
from ipexctl.base.retry_command import without_secrets
from ipexctl.cli.lazy_group import declaration_of
from ipexctl.errors import IpexctlError

_PART = r"(?<![\w.-])%s(?![\w.-])"  # a name in a list or pattern, but not a part of another name


def add_corrected_command(error: IpexctlError, words: Sequence[str]) -> None:
    """Put the corrected command line before the other lines of the error's hint. `words`: those
    typed after `ipexctl`."""
    wrong, right = error.meant
    corrected = _replace_word(words, wrong, right) if wrong else _add_option(words, right)
    if corrected:
        command = quote_for_pasting(("ipexctl", *without_secrets(corrected)))
        error.hint = f"{command}\n{error.hint}".rstrip("\n")


def _replace_word(words: Sequence[str], wrong: str, right: str) -> list[str]:
    """Return the words with this part of one replaced; [] unless it stands in exactly one place."""
    part = re.compile(_PART % re.escape(wrong))
    matches = [(i, match) for i, word in enumerate(words) for match in part.finditer(word)]
    if len(matches) != 1:
        return []
    ((i, match),) = matches
    word = words[i][: match.start()] + right + words[i][match.end() :]
    return [*words[:i], word, *words[i + 1 :]]


def _add_option(words: Sequence[str], option: str) -> list[str]:
    """Return the words with this option: at the end, but before a script and its arguments."""
    if not option or not words:
        return []
    if "--" in words or declaration_of(words[0]).pasted:
        return [words[0], option, *words[1:]]
    return [*words, option]
