"""`${name}` in the text of a play. There is nothing else: no filters, no expressions, no loops.

`$${name}` is the text `${name}`; `$name` is text, so that a shell's own variables stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ipexctl.core.inventory.located_errors import Bad, nearest

_REFERENCE = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<name>[^${}\n]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
PREFIX = "ipexctl_play_"  # of the variables that a step's shell gets
KINDS = ("fact", "env", "secret")


@dataclass(frozen=True)
class Scope:
    """What the names of a play stand for on one host. `known` lists names for suggestions; before
    the hosts are asked (`facts_known` is false), the values of facts are not there yet."""

    values: Mapping[str, str]
    known: tuple[str, ...] = ()
    pending: frozenset[str] = frozenset()  # names that a host is still to be asked for
    used: set[str] = field(default_factory=set, compare=False)

    def lookup(self, name: str, at: int) -> str | None:
        """None: known by its name, and not by its value yet."""
        self.used.add(name)
        if name in self.values:
            return self.values[name]
        if name in self.pending:
            return None
        raise _unknown(name, (*self.values, *self.known, *self.pending), at)


def _unknown(name: str, known: tuple[str, ...], at: int) -> Bad:
    kind, _, rest = name.partition(".")
    if kind in ("env", "secret") and rest:
        return Bad(
            f"${{{name}}}: the variable {rest} is not set here",
            hint=f"read -rs {rest} && export {rest}" if kind == "secret" else f"export {rest}=...",
            at=at,
        )
    if not _NAME.fullmatch(name):
        what = f"${{{name}}} is not a variable: a name is letters, digits and _"
        return Bad(
            what, why="plays have no expressions or filters", hint="$${ for a literal ${", at=at
        )
    near = nearest(name, known)
    said = f" (did you mean {near!r}?)" if near else ""
    shell = name.isupper() and "." not in name
    hint = f"${name} or $${{{name}}} for the shell's variable" if shell else ""
    return Bad(f"unknown variable {name!r}{said}", hint=hint, at=at)


def names_in(text: str) -> Iterator[tuple[str, int]]:
    """The names, and where they stand."""
    for found in _REFERENCE.finditer(text):
        if found["escaped"] is None:
            if not found[0].endswith("}"):
                raise Bad("${ without }", hint="$${ for a literal ${", at=found.start())
            yield found["name"].strip(), found.start()


def expanded(text: str, scope: Scope) -> str | None:
    """The text with values for names; None where one is not known yet."""
    if "$" not in text:
        return text
    values = {name: scope.lookup(name, at) for name, at in names_in(text)}
    if None in values.values():
        return None
    return _REFERENCE.sub(lambda m: "${" if m["escaped"] else values[m["name"].strip()] or "", text)


# --- for shells ----------------------------------------------------------------------------------


def for_shell(text: str, scope: Scope) -> tuple[str, dict[str, str]] | None:
    """Shell text that takes the values from variables, so that no value is read as shell code.

    In single quotes, where a shell expands nothing, the quotes are closed around the variable.
    """
    values: dict[str, str] = {}
    for name, at in names_in(text):
        value = scope.lookup(name, at)
        if value is None:
            return None
        values[name] = value
    if not values:
        return text.replace("$${", "${"), {}
    quote = _quotes(text)
    names = {name: PREFIX + _UNSAFE.sub("_", name) for name in values}

    def variable(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "${"
        said = f"${{{names[found['name'].strip()]}}}"
        return f"'\"{said}\"'" if quote(found.start()) == "'" else said

    return _REFERENCE.sub(variable, text), {names[n]: value for n, value in values.items()}


def _quotes(text: str) -> Callable[[int], str]:
    """The kind of quotes around each position: ', ", or "" outside of both."""
    around, current, comment, escaped = [], "", False, False
    for i, letter in enumerate(text):
        around.append("" if comment else current)
        if comment:
            comment = letter != "\n"
        elif escaped:
            escaped = False
        elif letter == "\\" and current != "'":
            escaped = True
        elif current:
            current = "" if letter == current else current
        elif letter in "'\"":
            current = letter
        elif letter == "#" and (i == 0 or text[i - 1] in " \t\n;&|("):
            comment = True
    return lambda at: around[at]
