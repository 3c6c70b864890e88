"""Where a play is: a path, or the name of one that ipexctl brings with it."""

from __future__ import annotations

from pathlib import Path

from ipexctl.core.inventory.located_errors import did_you_mean
from ipexctl.core.inventory.text_encoding import decode
from ipexctl.core.quoting import quote
from ipexctl.errors import InputError, reason_of
from ipexctl.local.bounded_read import read_file

SUFFIXES = (".yaml", ".yml")


def shipped_plays() -> dict[str, Path]:
    """The plays that come with ipexctl, by name."""
    folder = Path(__file__).parents[2] / "playbooks"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_play_file(word: str) -> tuple[str, str]:
    """The text of a play, and what messages call it. Raises InputError."""
    path = Path(word)
    if "/" not in word and not path.exists():
        path = shipped_plays().get(word.removesuffix(".yaml"), path)
    if path.suffix == ".py":
        what = f"{word} is a Python script, not a play"
        raise InputError(what, hint=f"ipexctl run {quote((word,))}")
    try:
        return decode(read_file(path), str(word)), str(word)
    except FileNotFoundError:
        raise _missing(word) from None
    except (OSError, ValueError) as e:
        why = reason_of(e)
        raise InputError(f"cannot read the play {word}", why=why) from None


def _missing(word: str) -> InputError:
    here = [p.name for p in Path().iterdir() if p.suffix in SUFFIXES]
    near = did_you_mean(word, [*shipped_plays(), *here])
    what = f"cannot read the play {word}: there is no such file{near}"
    return InputError(what, hint=f"shipped plays: {', '.join(shipped_plays())}")
