"""The answer of a host, which may hold anything: an invalid value is that host's failure alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipexctl.errors import HostFailed, is_shown

REPORT = "run the same command again; if it fails again, report it: ipexctl support"
_HUGE = 1 << 62


class Answer(dict[str, Any]):
    """A document of a host. What is asked of it and is not there, or is no such value, raises
    HostFailed; our own mistakes with what was read still show as what they are."""

    def __init__(self, host: str, said: object) -> None:
        if not isinstance(said, Mapping):
            raise HostFailed(
                f"{host}: the agent sent an invalid reply (not a document)",
                hint=REPORT,
                slug="agent-reply-invalid",
            )
        super().__init__(said)
        self._host = host

    def __missing__(self, name: str) -> Any:
        raise self.odd(f"{name!r} is missing")

    def odd(self, why: str) -> HostFailed:
        return HostFailed(
            f"{self._host}: the agent sent an invalid reply ({why})",
            hint=REPORT,
            slug="agent-reply-invalid",
        )

    def whole(self, name: str, most: int = _HUGE, least: int = 0) -> int:
        """A size or a count."""
        value = self[name]
        if type(value) is not int or not least <= value <= most:
            raise self.odd(f"{name!r} is not a number in range")
        return value

    def text(self, name: str) -> str:
        value: str = self[name]
        if not _is_line(value):
            raise self.odd(f"{name!r} is not a line of text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self[name]
        if not isinstance(value, list) or not all(map(_is_line, value)):
            raise self.odd(f"{name!r} is not a list of lines of text")
        return tuple(value)

    def path(self, name: str) -> str:
        """An absolute path."""
        value = self.text(name)
        if not value.startswith("/"):
            raise self.odd(f"{name!r} is not an absolute path")
        return value

    def flag(self, name: str) -> bool:
        value = self[name]
        if not isinstance(value, bool):
            raise self.odd(f"{name!r} is neither true nor false")
        return value

    def rows(self, name: str, *kinds: type) -> list[list[Any]]:
        """Lists with one value of each kind; an int is a size or a count, a str is one line."""
        value = self[name]
        for row in value if isinstance(value, list) else [None]:
            if not isinstance(row, list) or len(row) != len(kinds):
                raise self.odd(f"the rows of {name!r} are not in the expected format")
            if not all(map(_is, row, kinds)):
                raise self.odd(f"the rows of {name!r} have unexpected values")
        return value  # type: ignore[no-any-return]

    def documents(self, name: str) -> list[Answer]:
        value = self[name]
        if not isinstance(value, list):
            raise self.odd(f"{name!r} is not a list")
        return [Answer(self._host, one) for one in value]

    def names(self, name: str) -> dict[str, str]:
        """Lines of text by their names."""
        value: dict[str, str] = self[name]
        if not isinstance(value, dict) or not all(map(_is_line, (*value, *value.values()))):
            raise self.odd(f"{name!r} is not a mapping of lines of text")
        return value


class AnyText:
    """A kind of value in rows: a string of any characters, for a caller that expects them."""


def _is_line(value: object) -> bool:
    return isinstance(value, str) and all(map(is_shown, value))


def _is(value: object, kind: type) -> bool:
    if kind is str:
        return _is_line(value)
    if kind is AnyText:
        return isinstance(value, str)
    if kind is float:
        return type(value) in (int, float) and 0 <= value < _HUGE  # type: ignore[operator]
    return type(value) is kind and (kind is not int or 0 <= value <= _HUGE)  # type: ignore[operator]
