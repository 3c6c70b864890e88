"""`${name}` in the text of a play, which has no filters and no expressions.

`$${name}` is the text `${name}`; `$name` is text, so that a shell's own variables stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from ipexctl.base.located_errors import Bad, nearest_word
from ipexctl.base.secret_mask import mask_secrets
from ipexctl.base.sizes import format_bytes
from ipexctl.quick_dataclass import dataclass

_REFERENCE = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<name>[^${}\n]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?")
_JINJA = re.compile(r"\{\{\s*([A-Za-z_][\w.]*)\s*(?:\|[^{}\n]*)?\}\}")
_UNSAFE = re.compile(r"[^A-Za-z0-9]")
PREFIX = "ipexctl_play_"  # of the variables that a step's shell gets
_PASSED = re.compile(rf'"?\$\{{{PREFIX}(\w+)\}}"?')
_PASSED_PART = re.compile(r"__|_([0-9a-f]+)_")
# Ansible's name -> ours
_ANSIBLE = {
    "inventory_hostname": "host",
    "ansible_hostname": "fact.hostname",
    "ansible_memtotal_mb": "fact.memory",
    "ansible_processor_vcpus": "fact.cpus",
    "ansible_processor_cores": "fact.cores",
    "ansible_distribution": "fact.os",
    "ansible_os_family": "fact.os_family",
    "ansible_kernel": "fact.kernel",
    "ansible_architecture": "fact.arch",
    "ansible_user_id": "fact.user",
    "ansible_user_dir": "fact.home",
    "ansible_user": "fact.user",
}
KINDS = ("fact", "env", "secret")
LONGEST = 1_000_000  # characters of a text with its values: a dozen variables can make gigabytes


@dataclass(frozen=True)
class Scope:
    """The values of a play's names on one host. `known` lists names for suggestions; `pending`
    those whose values are known only once the host has answered."""

    values: Mapping[str, str]
    known: tuple[str, ...] = ()
    pending: set[str] = field(default_factory=set)  # names that a host is still to be asked for
    used: set[str] = field(default_factory=set, compare=False)
    elsewhere: Mapping[str, str] = field(
        default_factory=dict
    )  # variables of other hosts: a pattern

    def lookup(self, name: str, index: int) -> str | None:
        """Return the value of a name; None if the name is known, but its value is not known yet."""
        self.used.add(name)
        if name in self.values:
            return self.values[name]
        if name in self.pending:
            return None
        if name in self.known:
            what = f"${{{name}}}: {self.values.get('host')} did not report this fact"
            raise Bad(
                what, hint="on: HOSTS   # those that report it", at=index, slug="fact-not-reported"
            )
        if name in self.elsewhere:
            what = f"{self.values.get('host')} has no variable {name!r}"
            hint = f"vars: {{{name}: ...}}   # default for hosts that do not set it"
            raise Bad(
                what,
                why=f"set only on {self.elsewhere[name]}",
                hint=hint,
                at=index,
                slug="variable-not-on-host",
            )
        raise _unknown_name_error(name, (*self.values, *self.known, *self.pending), index)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in any output."""
        names = sorted(name for name in self.used if name.startswith("secret."))
        return tuple(self.values[name] for name in names if self.values.get(name))

    def mask_text(self, text: str) -> str:
        return mask_secrets(text, self.secrets)


def _unknown_name_error(name: str, names: tuple[str, ...], index: int) -> Bad:
    kind, _, rest = name.partition(".")
    if kind in ("env", "secret") and rest:
        return Bad(
            f"${{{name}}}: the variable {rest} is not set on this machine",
            hint=f"read -rs {rest} && export {rest}" if kind == "secret" else f"export {rest}=...",
            at=index,
            slug="environment-variable-unset",
        )
    if not _NAME.fullmatch(name):
        what = f"${{{name}}} is not a variable: a name consists of letters, digits and _"
        return Bad(
            what,
            why="plays do not support expressions or filters",
            hint="write $${ for a literal ${",
            at=index,
            slug="bad-reference",
        )
    if kind == "item" and not any(known_name.partition(".")[0] == "item" for known_name in names):
        return Bad(
            f"${{{name}}} stands for an item of a loop, but this step has none",
            hint="loop: [a, b]   # beside the keyword of the step",
            at=index,
            slug="item-without-loop",
        )
    near = ansible_name(name) or nearest_word(name, names)
    guess = f" (did you mean {near!r}?)" if near else ""
    is_shell = "." not in name and (name.isupper() or not near)
    hint = f"${name} or $${{{name}}} for the shell's variable" if is_shell else ""
    return Bad(f"unknown variable {name!r}{guess}", hint=hint, at=index, slug="unknown-variable")


def ansible_name(name: str) -> str:
    """Return our name of an Ansible variable or fact; "" if there is none."""
    return _ANSIBLE.get(name, "")


def as_written(text: str) -> str:
    """Restore the play's names in shell code, or in a shell's message about it."""
    return _PASSED.sub(lambda m: "${" + _PASSED_PART.sub(_variable_letter, m[1]) + "}", text)


def _variable_letter(part: re.Match[str]) -> str:
    return chr(int(part[1], 16)) if part[1] else "_"


def names_in(text: str) -> Iterator[tuple[str, int]]:
    """Yield the names and their positions. Raises Bad, also for Jinja."""
    if "{{" in text and (jinja := _JINJA.search(text)):
        name = ansible_name(jinja[1]) or jinja[1]
        what = f"{jinja[0][:64]} is Jinja, which plays do not support"
        raise Bad(what, hint=f"${{{name}}}", at=jinja.start(), slug="jinja-unsupported")
    for reference in _REFERENCE.finditer(text):
        if reference["escaped"] is None:
            if not reference[0].endswith("}"):
                raise Bad(
                    "${ has no closing }",
                    hint="write $${ for a literal ${",
                    at=reference.start(),
                    slug="bad-reference",
                )
            yield reference["name"].strip(), reference.start()


def interpolate_text(text: str, scope: Scope) -> str | None:
    """Return the text with values for names; None if one is not known yet."""
    if "$" not in text and "{{" not in text:
        return text
    names = list(names_in(text))
    values = {name: scope.lookup(name, index) for name, index in names}
    if None in values.values():
        return None
    if len(text) + sum(len(values[name] or "") for name, _ in names) > LONGEST:
        what = f"with the values of its variables this is longer than {format_bytes(LONGEST)}"
        raise Bad(what, hint="# copy: a file that has the text", slug="text-too-long")
    return _REFERENCE.sub(lambda m: "${" if m["escaped"] else values[m["name"].strip()] or "", text)


# --- for shells ----------------------------------------------------------------------------------


def for_shell(text: str, scope: Scope) -> tuple[str, dict[str, str]] | None:
    """Return shell text that takes values from variables, so that no value is read as code.

    A value is always one word, as in double quotes. If the quotes around it cannot be determined, a
    value of letters and digits is inserted as text, and any other is refused.
    """
    values: dict[str, str] = {}
    for name, index in names_in(text):
        value = scope.lookup(name, index)
        if value is None:
            return None
        values[name] = value
    if not values:
        return text.replace("$${", "${"), {}
    quoting = _shell_references(text)

    def written(reference: re.Match[str]) -> str:
        if reference["escaped"]:
            return "${"
        name, index = reference["name"].strip(), reference.start()
        if text[:index].endswith("\\"):
            hint = f"$${{{name}}} for the shell's own variable"
            raise _no_place(f"${{{name}}} cannot be used after a backslash", "", hint, index)
        if index in quoting:
            return quoting[index] % f"${{{_shell_name(name)}}}"
        value = values[name]
        if _PLAIN_WORD.fullmatch(value) and value == scope.mask_text(value):
            return value
        what = f"${{{name}}} cannot be used here: its value is not a plain word"
        hint = f'v=${{{name}}} on a line before; then "$v"'
        raise _no_place(what, _UNCERTAIN, hint, index)

    shell = _REFERENCE.sub(written, text)
    return shell, {_shell_name(name): value for name, value in values.items()}


def _no_place(what: str, why: str, hint: str, index: int) -> Bad:
    return Bad(what, why=why, hint=hint, at=index, slug="value-in-unsafe-place")


_UNCERTAIN = (
    "in $( ) within quotes, $(( )), backticks and here-documents, a value may only have letters, "
    "digits and . _ / : @ % + , - and cannot be a secret"
)
_PLAIN_WORD = re.compile(r"[\w.,/:@%+-]+", re.ASCII)
# What stands between bare words. After `end`, a regular expression cannot determine the quotes.
_PIECE = re.compile(
    r"(?P<comment>(?<![^\s;&|()])#[^\n]*)|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:\\.|\$(?!\()|[^"\\`$])*)"'
    r"|\\.|\$\(\([^()]*\)\)|`[^`]*`|(?P<end>['\"`]|\$'|\(\(|<<)",
    re.DOTALL,
)
_WRITTEN = {"comment": "%s", "double": "%s", "single": "'\"%s\"'"}


def _shell_references(text: str) -> dict[int, str]:
    """Return how to write the variable of each reference, by the position of the reference."""
    templates: dict[int, str] = {}

    def add(start: int, end: int, template: str) -> None:
        positions = (reference.start() for reference in _REFERENCE.finditer(text, start, end))
        templates.update(dict.fromkeys(positions, template))

    bare = 0
    for piece in _PIECE.finditer(text):
        add(bare, piece.start(), '"%s"')
        bare = piece.end()
        if piece["end"]:
            return templates
        if piece.lastgroup:
            add(piece.start(), bare, _WRITTEN[piece.lastgroup])
    add(bare, len(text), '"%s"')
    return templates


def _shell_name(name: str) -> str:
    """Return a unique shell name: _ becomes __, and other characters become their code."""
    return PREFIX + _UNSAFE.sub(lambda m: "__" if m[0] == "_" else f"_{ord(m[0]):x}_", name)
