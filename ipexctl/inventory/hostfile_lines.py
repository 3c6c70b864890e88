"""One host per line: Intel MPI, MPICH, Open MPI, DeepSpeed, PBS, ipexrun and plain lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ipexctl.base.located_errors import Bad, locate_errors
from ipexctl.base.place import Place
from ipexctl.errors import InputError
from ipexctl.inventory.host_address import parse_address
from ipexctl.inventory.host_variables import Value, apply_variables, field_of
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.inventory.nodeset import MAX_NAMES, fold, split_outside_brackets
from ipexctl.quick_dataclass import dataclass

COMMAND_LINE = "the command line"
_TOKEN = re.compile(
    r"""[ \t]+|(?P<comment>\#.*)|(?P<word>(?:[^ \t"'\#]|'[^']*'|"(?:[^"\\]|\\.)*")+)|.""", re.S
)
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""")


@dataclass(frozen=True)
class HostfileLine:
    """One line without its comment: words, and the column of each (1-based)."""

    number: int
    words: tuple[tuple[str, int], ...]
    source: str

    def place(self, column: int) -> Place:
        return Place(self.source, self.number, column)


def parse_lines(text: str, source: str) -> Inventory:
    hosts: list[Host] = []
    seen: dict[str, list[Host]] = {}  # a PBS node file has one equal line per core
    for number, line in number_lines(text):
        if line not in seen:
            seen[line] = list(_read_line(split_line(line, number, source)))
        for host in seen[line]:
            column = host.place.column if host.place else 1
            hosts.append(replace(host, place=Place(source, number, column)))
    return _merge_repeated(hosts, source)


def parse_items(items: Iterable[str], source: str) -> Inventory:
    """Parse hosts of the command line: each item is `a` or `a,b:2,user@c:2222`."""
    hosts: list[Host] = []
    for item in items:
        for piece, _ in split_outside_brackets(item, ","):
            with locate_errors(None):
                hosts += parse_address(piece.strip()) if piece.strip() else []
    return _merge_repeated(hosts, source)


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(re.split(r"\r\n|\r|\n", text), 1)


def split_line(line: str, number: int, source: str) -> HostfileLine:
    """Split a line; quotes keep spaces and `#` together, and are removed from values later."""
    words = []
    for token in _TOKEN.finditer(line):
        if token["word"]:
            words.append((token["word"], token.start() + 1))
        elif token[0] in ('"', "'"):
            place = Place(source, number, token.start() + 1)
            raise InputError(
                f"{place}: this quote {token[0]} is not closed", slug="quote-not-closed"
            )
        elif not token["comment"] and token[0].strip(" \t"):
            words.append((token[0], token.start() + 1))
    return HostfileLine(number, tuple(words), source)


def line_options(line: HostfileLine) -> list[tuple[str, Value]]:
    """Return the words after the host, each KEY=VALUE."""
    options = []
    for word, column in line.words[1:]:
        key, equals, value = word.partition("=")
        if not equals or not key:
            name = line.words[0][0]
            raise Bad(
                f"unexpected {word!r} after the host",
                hint=f"write one host per line, optionally with slots: {name} slots=4",
                slug="unexpected-word",
            ).placed(line.place(column))
        options.append((key, Value(unquote_value(value), line.place(column))))
    return options


def unquote_value(value: str) -> str:
    r"""Remove quotes as a shell does: in double quotes, \ keeps a quote or itself."""
    return _QUOTED.sub(lambda m: m[1] or re.sub(r'\\(["\\])', r"\1", m[2] or ""), value)


def _read_line(line: HostfileLine) -> Iterator[Host]:
    """Yield the hosts of a line, each with the line's options."""
    if not line.words:
        return
    text, column = line.words[0]
    with locate_errors(line.place(column)):
        hosts = parse_address(text)
    values = line_options(line)
    for key, value in values:
        if getattr(hosts[0], field_of(key) or "local"):
            raise Bad(
                f"{field_of(key)} is set twice: in {text} and in {key}", slug="host-key-set-twice"
            ).placed(value.place)
    for host in hosts:
        full, _ = apply_variables(replace(host, place=line.place(column)), values, strict=True)
        yield full


# --- the list as a whole -------------------------------------------------------------------------


def _merge_repeated(entries: list[Host], source: str) -> Inventory:
    """Build an inventory; a host that is repeated without options has a slot for each time."""
    if not entries:
        raise no_hosts(source)
    first: dict[str, Host] = {}
    times: Counter[str] = Counter()
    for host in entries:
        key = host.name.lower()
        earlier = first.setdefault(key, host)
        if earlier is not host and (
            host.slots or replace(earlier, place=None) != replace(host, place=None)
        ):
            raise _named_twice_error(earlier, host)
        times[key] += 1
    check_count(len(first), source)
    hosts = tuple(first.values())
    if len(first) == len(entries):
        return Inventory(hosts, source)
    with_slots = tuple(h if h.slots else replace(h, slots=times[h.name.lower()]) for h in hosts)
    return Inventory(with_slots, source, (_repeat_note(with_slots, times, source),))


def check_count(count: int, source: str) -> None:
    if count > MAX_NAMES:
        raise InputError(
            f"{source} names {count:,} hosts; the maximum is {MAX_NAMES:,}", slug="too-many-hosts"
        )


def no_hosts(source: str) -> InputError:
    line = source == COMMAND_LINE
    is_yaml = source.endswith((".yaml", ".yml"))
    hint = "- node1" if is_yaml else "write one host per line, for example: node1"
    return InputError(
        f"{source} lists no hosts", hint="-H node1,node2" if line else hint, slug="no-hosts-in-file"
    )


def _repeat_note(hosts: tuple[Host, ...], times: Counter[str], source: str) -> str:
    by_count: dict[int, list[str]] = {}
    for host in hosts:
        by_count.setdefault(times[host.name.lower()], []).append(host.name)
    several = "; ".join(f"{fold(names)}: {n}" for n, names in by_count.items() if n > 1)
    return f"{source} names hosts several times, once per slot as PBS does: {several}"


def _named_twice_error(first: Host, second: Host) -> InputError:
    hint = f"to run several ranks on one host, give a number of slots: {first.name} slots=2"
    if first.port != second.port:
        hint = "give each port its own name in ssh_config (Host, HostName, Port), and use the names"
    if first.place is None or second.place is None:
        return InputError(
            f"on the command line: {second.name!r} is listed twice",
            hint=hint,
            slug="host-listed-twice",
        )
    return InputError(
        f"{second.place}: {second.name!r} is listed twice",
        why=f"it is on line {first.place.line} and again on line {second.place.line}",
        hint=hint,
        slug="host-listed-twice",
    )
