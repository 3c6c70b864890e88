"""`${name}` in the text of a play. There is nothing else: no filters, no expressions.

`$${name}` is the text `${name}`; `$name` is text, so that a shell's own variables stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from ipexctl.base.located_errors import Bad, nearest
from ipexctl.base.secret_mask import masked
from ipexctl.play.text import shell_contexts
from ipexctl.quick_dataclass import dataclass

_REFERENCE = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<name>[^${}\n]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?")
_JINJA = re.compile(r"\{\{\s*([A-Za-z_][\w.]*)\s*(?:\|[^{}\n]*)?\}\}")
_UNSAFE = re.compile(r"[^A-Za-z0-9]")
_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
PREFIX = "ipexctl_play_"  # of the variables that a step's shell gets
_PASSED = re.compile(rf'"?\$\{{{PREFIX}(\w+)\}}"?')
_PASSED_PART = re.compile(r"__|_([0-9a-f]+)_")
# what Ansible calls it
_ANSIBLE = {
    "inventory_hostname": "host", "ansible_hostname": "fact.hostname",
    "ansible_memtotal_mb": "fact.memory", "ansible_processor_vcpus": "fact.cpus",
    "ansible_processor_cores": "fact.cores", "ansible_distribution": "fact.os",
    "ansible_os_family": "fact.os_family", "ansible_kernel": "fact.kernel",
    "ansible_architecture": "fact.arch", "ansible_user_id": "fact.user",
    "ansible_user_dir": "fact.home", "ansible_user": "fact.user",
}  # fmt: skip
KINDS = ("fact", "env", "secret")
MOST = 1 << 20  # characters of a text with its values
MOST_TOGETHER = 8 << 20  # of all texts of a step and of the play's variables, on one host


@dataclass(frozen=True)
class Scope:
    """The values of a play's names on one host. `known` lists names for suggestions;
    `pending` those whose values are known only once the host has answered."""

    values: Mapping[str, str]
    known: tuple[str, ...] = ()
    pending: set[str] = field(default_factory=set)  # names that a host is still to be asked for
    used: set[str] = field(default_factory=set, compare=False)
    elsewhere: Mapping[str, str] = field(
        default_factory=dict
    )  # variables of other hosts: a pattern
    size: list[int] = field(default_factory=lambda: [0], compare=False)  # of all its texts

    def lookup(self, name: str, at: int) -> str | None:
        """None: the name is known, but its value is not known yet."""
        self.used.add(name)
        if name in self.values:
            return self.values[name]
        if name in self.pending:
            return None
        if name in self.known:
            what = f"${{{name}}}: {self.values.get('host')} did not report this fact"
            raise Bad(
                what, hint="on: HOSTS   # those that report it", at=at, slug="fact-not-reported"
            )
        if name in self.elsewhere:
            what = f"{self.values.get('host')} has no variable {name!r}"
            hint = f"vars: {{{name}: ...}}   # default for hosts that do not set it"
            raise Bad(
                what,
                why=f"set only on {self.elsewhere[name]}",
                hint=hint,
                at=at,
                slug="variable-not-on-host",
            )
        raise _unknown(name, (*self.values, *self.known, *self.pending), at)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in any output."""
        names = sorted(name for name in self.used if name.startswith("secret."))
        return tuple(self.values[name] for name in names if self.values.get(name))

    def masked(self, text: str) -> str:
        return masked(text, self.secrets)


def _unknown(name: str, known: tuple[str, ...], at: int) -> Bad:
    kind, _, rest = name.partition(".")
    if kind in ("env", "secret") and rest:
        return Bad(
            f"${{{name}}}: the variable {rest} is not set on this machine",
            hint=f"read -rs {rest} && export {rest}" if kind == "secret" else f"export {rest}=...",
            at=at,
            slug="environment-variable-unset",
        )
    if not _NAME.fullmatch(name):
        what = f"${{{name}}} is not a variable: a name consists of letters, digits and _"
        return Bad(
            what,
            why="plays do not support expressions or filters",
            hint="write $${ for a literal ${",
            at=at,
            slug="bad-reference",
        )
    if kind == "item" and not any(other.partition(".")[0] == "item" for other in known):
        return Bad(
            f"${{{name}}} stands for an item of a loop, but this step has none",
            hint="loop: [a, b]   # beside the keyword of the step",
            at=at,
            slug="item-without-loop",
        )
    near = ansible_name(name) or nearest(name, known)
    said = f" (did you mean {near!r}?)" if near else ""
    shell = "." not in name and (name.isupper() or not near)
    hint = f"${name} or $${{{name}}} for the shell's variable" if shell else ""
    return Bad(f"unknown variable {name!r}{said}", hint=hint, at=at, slug="unknown-variable")


def ansible_name(name: str) -> str:
    """What a variable or fact of Ansible is called here; "" if it has no name here."""
    return _ANSIBLE.get(name, "")


def as_written(text: str) -> str:
    """Shell code, or a shell's message about it, with the names as the play writes them."""
    return _PASSED.sub(lambda m: "${" + _PASSED_PART.sub(_letter, m[1]) + "}", text)


def _letter(part: re.Match[str]) -> str:
    return chr(int(part[1], 16)) if part[1] else "_"


def names_in(text: str) -> Iterator[tuple[str, int]]:
    """The names, and where they stand. Raises Bad, also for Jinja."""
    if "{{" in text and (jinja := _JINJA.search(text)):
        name = ansible_name(jinja[1]) or jinja[1]
        what = f"{jinja[0][:64]} is Jinja, which plays do not support"
        raise Bad(what, hint=f"${{{name}}}", at=jinja.start(), slug="jinja-unsupported")
    for found in _REFERENCE.finditer(text):
        if found["escaped"] is None:
            if not found[0].endswith("}"):
                raise Bad(
                    "${ has no closing }",
                    hint="write $${ for a literal ${",
                    at=found.start(),
                    slug="bad-reference",
                )
            yield found["name"].strip(), found.start()


def expanded(text: str, scope: Scope) -> str | None:
    """The text with values for names; None where one is not known yet."""
    if "$" not in text and "{{" not in text:
        return text
    found = [(name, scope.lookup(name, at)) for name, at in names_in(text)]
    size = len(text) + sum(len(value or "") for _, value in found)
    scope.size[0] += size
    if size > MOST:
        raise Bad(
            f"this text with its values is larger than {MOST >> 20} MiB", slug="value-too-large"
        )
    if scope.size[0] > MOST_TOGETHER:
        raise Bad(
            f"the values of a step are larger than {MOST_TOGETHER >> 20} MiB together",
            slug="value-too-large",
        )
    values = dict(found)
    if None in values.values():
        return None
    return _REFERENCE.sub(lambda m: "${" if m["escaped"] else values[m["name"].strip()] or "", text)


# --- for shells ----------------------------------------------------------------------------------


def for_shell(text: str, scope: Scope) -> tuple[str, dict[str, str]] | None:
    """Shell text that takes the values from variables, so that no value is read as shell code.

    A value is one word, as in double quotes, wherever it stands.
    """
    values: dict[str, str] = {}
    for name, at in names_in(text):
        value = scope.lookup(name, at)
        if value is None:
            return None
        values[name] = value
    if not values:
        return text.replace("$${", "${"), {}
    scope.size[0] += sum(map(len, values.values()))
    contexts = shell_contexts.ShellContexts(text, _REFERENCE)

    def variable(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "${"
        name = found["name"].strip()
        said = f"${{{_shell_name(name)}}}"
        around = contexts.at(found.start())
        if around == shell_contexts.NUMBER and not _NUMBER.fullmatch(values[name]):
            value = values[name]
            what = f"${{{name}}} is used in $(( )), but its value {value!r} is not a whole number"
            raise Bad(what, at=found.start(), slug="not-a-number")
        if around not in _WRITTEN:
            raise _no_place_for(name, around, contexts.unclear, found.start())
        return _WRITTEN[around] % said

    shell = _REFERENCE.sub(variable, text)
    return shell, {_shell_name(name): value for name, value in values.items()}


_WRITTEN = {
    shell_contexts.PLAIN: '"%s"',
    shell_contexts.SINGLE: "'\"%s\"'",
    shell_contexts.DOUBLE: "%s",
    shell_contexts.NUMBER: "%s",
}
_NO_PLACE = {
    shell_contexts.BACKTICK: ("in backticks", "$( ) instead of backticks"),
    shell_contexts.ANSI: ("in $'...'", "'...' instead of $'...'"),
    shell_contexts.QUOTED_HERE: (
        "in a here-document with a quoted delimiter, where the shell expands nothing",
        "<<EOF instead of <<'EOF'",
    ),
    shell_contexts.BACKSLASH: ("after a backslash", "$${%s} for the shell's own variable"),
}


def _no_place_for(name: str, around: str, unclear: str, at: int) -> Bad:
    where, hint = _NO_PLACE.get(
        around, (f"after {unclear}, which shells read differently", "v=${%s} on a line before; $v")
    )
    return Bad(
        f"${{{name}}} cannot be used {where}",
        hint=hint.replace("%s", name),
        at=at,
        slug="value-in-unsafe-place",
    )


def _shell_name(name: str) -> str:
    """A unique shell name: _ becomes __, and other characters become their code."""
    return PREFIX + _UNSAFE.sub(lambda m: "__" if m[0] == "_" else f"_{ord(m[0]):x}_", name)
