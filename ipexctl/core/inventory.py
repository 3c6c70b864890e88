"""Every spelling of a host list -> Inventory, and names folded for display.

node1               one host
node1:4             4 slots, as Intel MPI and MPICH write it
node1 slots=4       4 slots, as Open MPI and DeepSpeed write it
ann@node1:2222      with a user in front, the number is an SSH port
[fe80::1%eth0]:2222 an IPv6 address, and a port
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import AddressValueError, IPv6Address

from ipexctl.core.model import Host, Inventory, Place
from ipexctl.errors import InputError

SMALLEST_PORT_LOOKALIKE = 1000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}")
_USER = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._@-]{0,252}")
_ODD = re.compile(r"[^A-Za-z0-9._:%@\[\]-]")
_COUNT = re.compile(r"[0-9]{1,6}", re.ASCII)
_WORD = re.compile(r"[^ \t]+")


class _Bad(Exception):
    """A host that can't be read; `at` counts characters from the start of the piece."""

    def __init__(self, what: str, *, why: str = "", hint: str = "", at: int = 0) -> None:
        super().__init__(what)
        self.what, self.why, self.hint, self.at = what, why, hint, at


def parse_hostfile(text: str, source: str) -> Inventory:
    """One host per line, in the dialects of Intel MPI, MPICH, Open MPI and DeepSpeed."""
    hosts: list[Host] = []
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")), 1):
        content = line.partition("#")[0]
        words = [(m.group(), m.start()) for m in _WORD.finditer(content)]
        if not words:
            continue
        place = Place(source, number, words[0][1] + 1)
        try:
            hosts.append(replace(_parse_words(words), place=place))
        except _Bad as e:
            at = Place(source, number, e.at + 1)
            raise InputError(f"{at}: {e.what}", why=e.why, hint=e.hint) from None
    return _inventory(hosts, source)


def parse_hosts(items: tuple[str, ...]) -> Inventory:
    """Hosts from the command line: each item is `a` or `a,b:2,user@c:2222`."""
    hosts: list[Host] = []
    for item in items:
        for piece in _split_commas(item):
            try:
                hosts.append(_parse_words([(piece, 0)]))
            except _Bad as e:
                raise InputError(f"on the command line: {e.what}", why=e.why, hint=e.hint) from None
    return _inventory(hosts, "the command line")


def this_machine() -> Inventory:
    return Inventory((Host("localhost", local=True),), "this machine")


def fold(names: Iterable[str]) -> str:
    """`node01 node02 node03 head` -> `node[01-03],head`."""
    return ",".join(_fold_shape(members) for members in _shapes(dict.fromkeys(names)))


# --- one list ------------------------------------------------------------------------------------


def _inventory(hosts: list[Host], source: str) -> Inventory:
    if not hosts:
        raise InputError(f"{source} names no host", hint="name one host per line, such as: node1")
    seen: dict[str, Host] = {}
    for host in hosts:
        first = seen.setdefault(host.name.lower(), host)
        if first is not host:
            raise _duplicate(first, host)
    return Inventory(tuple(hosts), source)


def _duplicate(first: Host, second: Host) -> InputError:
    hint = f"for several ranks on one host write a number: {first.name} slots=2"
    if first.port != second.port:
        hint = "give each port its own name in ssh_config (Host, HostName, Port), and use the names"
    if first.place is None or second.place is None:
        return InputError(f"on the command line: {second.name} is named twice", hint=hint)
    return InputError(
        f"{second.place}: {second.name} is named twice",
        why=f"it stands in line {first.place.line} and again in line {second.place.line}",
        hint=hint,
    )


def _split_commas(item: str) -> Iterator[str]:
    """Commas inside [] don't separate, so that node[1,2] is seen whole."""
    for piece in re.split(r",(?![^\[]*\])", item):
        if piece.strip():
            yield piece.strip()


# --- one host ------------------------------------------------------------------------------------


def _parse_words(words: list[tuple[str, int]]) -> Host:
    (address, start), *options = words
    try:
        host = _parse_address(address)
    except _Bad as e:
        e.at += start
        raise
    for word, at in options:
        host = _with_option(host, word, at, address)
    return host


def _with_option(host: Host, word: str, at: int, address: str) -> Host:
    key, equals, value = word.partition("=")
    key = key.replace("-", "_")
    if not equals or key not in ("slots", "max_slots"):
        raise _Bad(
            f"{word!r} is not understood after a host",
            hint=f"write one host per line, with slots if you like: {host.name} slots=4",
            at=at,
        )
    count = _count(value)
    if not count:
        raise _Bad(f"{word!r}: {key} must be a whole number from 1", at=at)
    if key == "max_slots":  # Open MPI's limit for asking too much; we never go beyond slots
        return host
    if host.slots:
        raise _Bad(f"slots are given twice: {address} and {word}", at=at)
    return replace(host, slots=count)


def _parse_address(text: str) -> Host:
    _refuse_odd(text)
    user, at_sign, rest = text.rpartition("@")
    if at_sign and not _USER.fullmatch(user):
        raise _Bad(f"{user!r} is not a user name", hint="write user@host or user@host:port")
    name, number, is_port = _split_number(rest, has_user=bool(at_sign))
    _check_name(name)
    if number is None:
        return Host(name, user=user)
    if is_port:
        return Host(name, user=user, port=_port(number))
    return Host(name, slots=_slots(name, number))


def _refuse_odd(text: str) -> None:
    if text.startswith("-"):
        raise _Bad(f"{text!r} is not a host: a name cannot start with '-'")
    odd = _ODD.search(text)
    if odd and not _has_range(text):
        raise _Bad(
            f"{text!r} is not a host: {odd.group()!r} cannot stand in a name",
            hint="a host is node1, node1:4, node1 slots=4, user@node1:2222 or [IPv6]:port",
            at=odd.start(),
        )
    if _has_range(text):
        raise _Bad(
            f"{text!r}: ranges of hosts are not supported yet",
            hint="write every host on its own line, for example with: printf 'node%02d\\n' 1 2 3",
        )


def _has_range(text: str) -> bool:
    """node[01-03], also in the middle of a name; [::1] and [web] are not that."""
    before, opened, rest = text.rpartition("@")[2].partition("[")
    inside, closed, after = rest.partition("]")
    return bool(closed and ":" not in inside and (before or after.strip(":0123456789")))


def _split_number(rest: str, *, has_user: bool) -> tuple[str, str | None, bool]:
    """name, the text after the colon, and whether that is a port."""
    if rest.startswith("["):
        name, bracket, tail = rest[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise _Bad(f"{rest!r} is not an address", hint="write [IPv6] or [IPv6]:port")
        _check_v6(name)
        return name, tail[1:] if tail else None, True
    if rest.count(":") > 1:
        return rest, None, True
    name, colon, number = rest.partition(":")
    return name, number if colon else None, has_user


def _check_name(name: str) -> None:
    if ":" in name:
        _check_v6(name)
    elif not _NAME.fullmatch(name):
        raise _Bad(
            f"{name!r} is not a host name",
            why="a name has letters, digits, '.', '_' and '-', and starts with a letter or digit",
        )


def _check_v6(name: str) -> None:
    address, percent, zone = name.partition("%")
    try:
        IPv6Address(address)
        good = not percent or bool(_NAME.fullmatch(zone))
    except (AddressValueError, ValueError):
        good = False
    if not good:
        raise _Bad(
            f"{name!r} is not an IPv6 address",
            why="groups such as [web] are not known here, and a name has no more than one ':'",
            hint="write one host per line; an IPv6 address with a port is [fe80::1%eth0]:2222",
        )


def _port(text: str) -> int:
    port = _count(text)
    if not 1 <= port <= 65535:
        raise _Bad(f"{text!r} is not a port", why="a port is a number from 1 to 65535")
    return port


def _slots(name: str, text: str) -> int:
    slots = _count(text)
    if not slots:
        raise _Bad(
            f"{name}:{text} has no number of slots after the colon",
            hint=f"write {name}:4 for 4 ranks",
        )
    if slots >= SMALLEST_PORT_LOOKALIKE:
        raise _Bad(
            f"{name}:{text} could be a port or a number of ranks",
            why="host:N means N slots, as Intel MPI reads it, and this N looks like an SSH port",
            hint=f"USER@{name}:{text}     an SSH port\n{name} slots={text}  so many ranks",
        )
    return slots


def _count(text: str) -> int:
    """0 when the text isn't a plain number."""
    return int(text) if _COUNT.fullmatch(text) else 0


# --- folding -------------------------------------------------------------------------------------

_Cut = tuple[str, ...]  # texts and numbers in turn: text, digits, text, digits, text


def _shapes(names: Iterable[str]) -> list[list[_Cut]]:
    """Names that differ in one number only, side by side, in the order of their first."""
    cuts = [tuple(re.split(r"([0-9]{1,9})", name)) for name in names]
    by_text: dict[_Cut, list[_Cut]] = {}
    for cut in cuts:
        by_text.setdefault(cut[::2], []).append(cut)
    groups: dict[tuple[object, ...], list[_Cut]] = {}
    for cut in cuts:
        same = by_text[cut[::2]]
        at = _varying(same)
        width = len(cut[at]) if at and len(cut[at]) in _padded_widths(same, at) else 0
        groups.setdefault((cut[:at], cut[at + 1 :], at, width), []).append(cut)
    return list(groups.values())


def _varying(cuts: list[_Cut]) -> int:
    """The last place whose number isn't the same in all; 0 when there is none."""
    places = [i for i in range(1, len(cuts[0]), 2) if len({cut[i] for cut in cuts}) > 1]
    return places[-1] if places else 0


def _padded_widths(cuts: list[_Cut], at: int) -> set[int]:
    """Where some number starts with a 0, the width belongs to the name: 09 goes with 10, not 8."""
    return {len(cut[at]) for cut in cuts if cut[at].startswith("0") and len(cut[at]) > 1}


def _fold_shape(members: list[_Cut]) -> str:
    at = _varying(members)
    if not at:
        return "".join(members[0])
    inside = ",".join(_ranges([cut[at] for cut in members]))
    return "".join(members[0][:at]) + f"[{inside}]" + "".join(members[0][at + 1 :])


def _ranges(numbers: list[str]) -> Iterator[str]:
    numbers = sorted(numbers, key=int)
    start = last = numbers[0]
    for number in [*numbers[1:], ""]:
        if number and int(number) == int(last) + 1:
            last = number
            continue
        yield start if start == last else f"{start}-{last}"
        start = last = number
