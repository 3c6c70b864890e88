"""Errors in the user's texts: raised without a position by the reader of a value, then located."""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ipexctl.base.place import Place
from ipexctl.errors import InputError


class Bad(Exception):
    """A text that is invalid; `at` counts characters from its start. `meant`: as in IpexctlError,
    for a word that stands there."""

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        hint: str = "",
        slug: str = "",
        at: int = 0,
        meant: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(what)
        self.what, self.why, self.hint, self.slug, self.at = what, why, hint, slug, at
        self.meant = meant

    def prefixed(self, prefix: str) -> Bad:
        """Return the same error, for a text that does not start where `at` counts from."""
        return Bad(prefix + self.what, why=self.why, hint=self.hint, slug=self.slug)

    def masked(self, mask: Callable[[str], str]) -> Bad:
        """Return the same error without secrets."""
        what, why, hint = mask(self.what), mask(self.why), mask(self.hint)
        return Bad(what, why=why, hint=hint, slug=self.slug, at=self.at, meant=self.meant)

    def placed(self, start: Place | None) -> InputError:
        """Return the error for the user; `start` None: the text is from the command line."""
        where, place = "on the command line", ("", 0, 0)
        if start is not None:
            place = (start.source, start.line, start.column + self.at)
            where = str(Place(*place))
        error = InputError(f"{where}: {self.what}", why=self.why, hint=self.hint, slug=self.slug)
        return error.with_meant(*self.meant, at=place)


@contextmanager
def locate_errors(start: Place | None) -> Iterator[None]:
    """Turn a Bad raised inside into an error for the user, at its position after `start`."""
    try:
        yield
    except Bad as e:
        raise e.placed(start) from None


class FoundErrors:
    """The errors of a file, so that all of them are shown at once."""

    def __init__(self) -> None:
        self._found: list[InputError] = []

    @contextmanager
    def collect_errors(self) -> Iterator[None]:
        try:
            yield
        except InputError as e:
            if e not in self._found:
                self._found.append(e)

    def raise_all(self) -> None:
        if self._found:
            first, *others = self._found
            first.others = tuple(others)
            raise first


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'slots'?)`, or ""."""
    return ask_if_meant(nearest_word(word, known))


def ask_if_meant(guess: str) -> str:
    return f" (did you mean {guess!r}?)" if guess else ""


def nearest_word(word: str, known: Iterable[str]) -> str:
    """Return the word with the same letters, if one has them, or else the most similar one."""
    lower, words = word.lower()[:64], list(known)
    letters = sorted(lower)
    swapped = (each for each in words if len(each) == len(lower) and sorted(each) == letters)
    return next(swapped, "") or next(iter(difflib.get_close_matches(lower, words, 1)), "")


def is_one_slip(word: str, other: str) -> bool:
    """Decide whether at most one letter is missing, surplus, wrong, or swapped with the next."""
    start = len(posixpath.commonprefix((word, other)))
    a, b = word[start:], other[start:]
    return a == b or a[1:] in (b, b[1:]) or a == b[1:] or (a[1::-1], a[2:]) == (b[:2], b[2:])


def nearest_files(name: str, known: Iterable[str]) -> list[str]:
    """Return similar file names, compared without suffixes: those would make short ones similar."""
    stems: dict[str, list[str]] = {}
    for path in known:
        stems.setdefault(posixpath.splitext(path)[0], []).append(path)
    word = posixpath.splitext(name)[0][:64]
    stem_matches = difflib.get_close_matches(word, stems, 3, 0.7)
    return [path for stem in stem_matches for path in stems[stem]][:3]
