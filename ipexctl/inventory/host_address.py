"""One host as a user writes it, with what may precede and follow its name.

node1 one host node[01-16,20] 17 hosts node1:4 4 slots ann@node1:2222 a port, since a user precedes
it ssh://node1:2222 a port [fe80::1%eth0]:22 an IPv6 address and a port
"""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from ipexctl.base.located_errors import Bad
from ipexctl.inventory.inventory import Host
from ipexctl.inventory.nodeset import expand_names, is_range, split_outside_brackets

SMALLEST_PORT_LOOKALIKE = 1000
MOST_SLOTS = 999_999
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}")
_USER = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._@-]{0,252}")
_ODD = re.compile(r"[^A-Za-z0-9._:%@\[\]-]")
_PACKAGE = re.compile(r"([A-Za-z][\w.-]*)(?:\[[\w,-]+\])?(===?|[<>~!]=?)(\d[\w.+]*)")
_COUNT = re.compile(r"[0-9]{1,6}", re.ASCII)
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_NUMERIC = re.compile(r"[0-9.]+")
_SCHEME = "ssh://"


def parse_address(text: str) -> list[Host]:
    """Return every host that `text` names. Raises Bad."""
    start = len(_SCHEME) if text.startswith(_SCHEME) else 0
    body = text[start:].removesuffix("/") if start else text
    _refuse_odd(text, body, start)
    user, at_sign, rest = body.rpartition("@")
    if at_sign and not _USER.fullmatch(user):
        raise Bad(
            f"{user!r} is not a user name",
            hint="write user@host or user@host:port",
            slug="not-a-user-name",
        )
    name, number, is_port = _split_number(rest, says_port=bool(at_sign or start))
    names = _expand_host_names(name, at=start + len(user) + len(at_sign))
    host = Host(names[0], user=user)
    if number is not None:
        port = parse_port(number) if is_port else 0
        host = replace(host, port=port, slots=0 if is_port else _read_slots(name, number))
    return [replace(host, name=host_name) for host_name in names]


def parse_bare(text: str) -> str:
    """Return a name or an address and nothing else; [IPv6] loses its brackets."""
    _refuse_odd(text, text, 0)
    if text.count(":") == 1:
        raise Bad(
            f"{text!r} is neither a host name nor an IP address",
            why="a port or a number of slots is a separate key",
            hint="port=2222",
            slug="not-a-host",
        )
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        _check_v6(text)
    _check_name(text)
    return text


def parse_user(text: str) -> str:
    if not _USER.fullmatch(text):
        raise Bad(f"{text!r} is not a user name", slug="not-a-user-name")
    return text


def parse_port(text: str) -> int:
    port = _read_count(text)
    if not 1 <= port <= 65535:
        raise Bad(
            f"{text!r} is not a port", why="a port is a number from 1 to 65535", slug="not-a-port"
        )
    return port


def parse_count(text: str) -> int:
    count = _read_count(text)
    if not count:
        raise Bad(f"{text!r} is not a whole number from 1 to {MOST_SLOTS}", slug="not-a-slot-count")
    return count


def _read_count(text: str) -> int:
    """Return the number, 0 if the text isn't a plain number."""
    return int(text) if _COUNT.fullmatch(text) else 0


def _refuse_odd(text: str, body: str, start: int) -> None:
    if body.startswith("-"):
        raise Bad(
            f"{text!r} is not a host: a name cannot start with '-'", at=start, slug="not-a-host"
        )
    # inside brackets `,` and `/` are part of a range
    plain = _BRACKETS.sub(lambda m: re.sub("[,/]", "-", m[0]), body)
    match = _ODD.search(plain)
    if match:
        raise Bad(
            f"{text!r} is not a host: {match.group()!r} is not allowed in a name",
            hint=_package_hint(text)
            or "write a host as node1, node1:4, node1 slots=4, user@node1:2222 or [IPv6]:port",
            at=start + match.start(),
            slug="not-a-host",
        )


def _package_hint(text: str) -> str:
    """Return how to install `numpy<2`, which was given as a host; "" for other texts."""
    match = _PACKAGE.match(text)
    if not match:
        return ""
    if match[1] == "torch" and match[2] == "==":
        return f"ipexctl install --torch {match[3]}   # instead of {text}"
    return "to install Python packages, list them in a file: -r FILE"


def _split_number(rest: str, *, says_port: bool) -> tuple[str, str | None, bool]:
    """Return name, the text after the colon, and whether that is a port."""
    if rest.startswith("[") and not _is_range(rest):
        name, bracket, tail = rest[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise Bad(
                f"{rest!r} is not an address", hint="write [IPv6] or [IPv6]:port", slug="not-a-host"
            )
        _check_v6(name)
        return name, tail[1:] if tail else None, True
    pieces = [piece for piece, _ in split_outside_brackets(rest, ":")]
    if len(pieces) == 2:
        return pieces[0], pieces[1], says_port
    return rest, None, True  # a name, or an IPv6 address


def _is_range(text: str) -> bool:
    """Decide whether it is a range: `[1-3]x` and `[a:f]` are, `[fe80::1]` and `[web]` are not."""
    inside, closed, _ = text[1:].partition("]")
    return bool(closed) and is_range(inside) and not (":" in inside and _is_v6(inside))


def _expand_host_names(text: str, *, at: int) -> list[str]:
    if "[" not in text and "]" not in text:
        _check_name(text)
        return [text]
    try:
        names = expand_names(text)
    except Bad as e:
        e.at += at
        raise
    for name in names:
        _check_name(name)
    return names


def _check_name(name: str) -> None:
    if ":" in name:
        _check_v6(name)
    elif not _NAME.fullmatch(name):
        raise Bad(
            f"{name!r} is not a host name",
            why="a name has letters, digits, '.', '_' and '-', and starts with a letter or digit",
            slug="not-a-host",
        )
    elif _NUMERIC.fullmatch(name):
        _check_v4(name)


def _check_v4(name: str) -> None:
    try:
        IPv4Address(name)
    except AddressValueError:
        raise Bad(
            f"{name!r} is neither a host name nor an IPv4 address",
            why="an IPv4 address has four numbers from 0 to 255, without leading zeros",
            slug="not-a-host",
        ) from None


def _check_v6(name: str) -> None:
    if not _is_v6(name):
        raise Bad(
            f"{name!r} is neither an IPv6 address nor NAME:SLOTS",
            why="a name has at most one ':', and brackets contain an address or a range",
            hint="write one host per line; an IPv6 address with a port is [fe80::1%eth0]:2222",
            slug="not-a-host",
        )


def _is_v6(name: str) -> bool:
    address, percent, zone = name.partition("%")
    try:
        IPv6Address(address)
    except (AddressValueError, ValueError):
        return False
    return not percent or bool(_NAME.fullmatch(zone))


def _read_slots(name: str, text: str) -> int:
    slots = _read_count(text)
    if not slots:
        raise Bad(
            f"{name}:{text} has no number of slots after the colon",
            hint=f"write {name}:4 for 4 ranks",
            slug="not-a-slot-count",
        )
    if slots >= SMALLEST_PORT_LOOKALIKE:
        raise Bad(
            f"{name}:{text} may be a port or a number of ranks",
            why="host:N means N slots, as Intel MPI reads it, and this N looks like an SSH port",
            hint=f"USER@{name}:{text} or {name} port={text}     an SSH port\n"
            f"{name} slots={text}  number of ranks",
            slug="port-or-slots",
        )
    return slots
