"""Find a play: by its path, or by the name of one that ipexctl ships."""

from __future__ import annotations

from pathlib import Path

from ipexctl.base.located_errors import ask_if_meant, nearest_word
from ipexctl.base.quoting import quote
from ipexctl.errors import InputError, reason_of
from ipexctl.inventory.text_encoding import decode_text
from ipexctl.local.bounded_read import read_file
from ipexctl.local.ownership import chmod_command, untrusted_above, untrusted_reason

SUFFIXES = (".yaml", ".yml")


def shipped_plays() -> dict[str, Path]:
    """Return the plays that ipexctl ships, by name."""
    folder = Path(__file__).parents[1] / "playbooks"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_play_file(word: str) -> tuple[str, str]:
    """Return the text of a play and its name in messages. Raises InputError.

    A bare name is always a shipped play: the name of a file has a / or a suffix.
    """
    path = Path(word)
    shipped = shipped_plays().get(word)
    if path.suffix == ".py":
        what = f"{word} is a Python script, not a play"
        raise InputError(what, hint=f"ipexctl run {quote((word,))}", slug="not-a-play")
    if not shipped and "/" not in word and not path.suffix:
        raise _missing_play_error(word)
    # checked before reading: a user who can replace a folder above could undo that afterwards
    untrusted = "" if shipped else untrusted_reason(path) or untrusted_above(path)
    try:
        text = decode_text(read_file(shipped or path), word)
    except FileNotFoundError:
        raise _missing_play_error(word) from None
    except (OSError, ValueError) as e:
        why = reason_of(e)
        raise InputError(f"cannot read the play {word}", why=why, slug="play-unreadable") from None
    if untrusted:
        copy = f"read it first, then: cp {quote((word,))} into your own folder"
        raise InputError(
            f"{word}: {untrusted}",
            why="a play runs commands on all hosts",
            hint=chmod_command(path, untrusted) or copy,
            slug="play-untrusted",
        )
    return text, word


def _missing_play_error(word: str) -> InputError:
    if Path(word).is_file():
        what = f"there is no shipped play {word!r}"
        return InputError(
            what, hint=f"{quote(('./' + word,))} for the file in this folder", slug="play-missing"
        )
    local_plays = [path.name for path in Path().iterdir() if path.suffix in SUFFIXES]
    near = nearest_word(word, [*shipped_plays(), *local_plays])
    what = f"cannot read the play {word}: there is no such file{ask_if_meant(near)}"
    return InputError(
        what, hint=f"shipped plays: {', '.join(shipped_plays())}", slug="play-missing"
    ).with_meant(word, near)
