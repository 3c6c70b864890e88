"""The keys that a host can have besides its name, the same in every format."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ipexctl.base.located_errors import Bad, ask_if_meant, nearest_word
from ipexctl.base.place import Place
from ipexctl.inventory.host_address import parse_bare, parse_count, parse_port, parse_user
from ipexctl.inventory.inventory import Host
from ipexctl.quick_dataclass import dataclass

_PYTHON = re.compile(r"/[A-Za-z0-9/._+-]{1,1023}|[A-Za-z][A-Za-z0-9._+-]{0,63}")
_ROOT = re.compile(r"(?:~/|/)[A-Za-z0-9/._+@=,:~-]{1,1023}")
_NIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,14}")
_FINDS_ITSELF = ("auto", "auto_silent", "auto_legacy", "auto_legacy_silent")
_OWN = re.compile(r"(?!ansible_)[A-Za-z_][A-Za-z0-9_]{0,63}")  # names of variables for plays
_SSH = (
    "ssh",
    "smart",
    "paramiko",
    "paramiko_ssh",
    "ansible.builtin.ssh",
    "ansible.builtin.paramiko",
)


@dataclass(frozen=True)
class Value:
    """The value of a variable. `text` is None if it is not plain text; `odd` describes it."""

    text: str | None
    place: Place | None
    odd: str = ""


def _read_python(text: str) -> str:
    if text in _FINDS_ITSELF:
        return ""
    text = re.sub(r"^/usr/bin/env +", "", text)
    if not _PYTHON.fullmatch(text):
        raise Bad(
            f"{text!r} is not the path of a Python interpreter",
            hint="python=/usr/bin/python3   # for example",
            slug="not-a-python-path",
        )
    return text


def _read_root(text: str) -> str:
    if not _ROOT.fullmatch(text) or ".." in text.split("/"):
        raise Bad(
            f"{text!r} is not a valid value for 'root'",
            why="root is ipexctl's own folder on the host: absolute, or under ~/",
            hint="root=/scratch/ipexctl   # for example",
            slug="not-a-root-folder",
        )
    return text


def _read_nic(text: str) -> str:
    if not _NIC.fullmatch(text):
        raise Bad(
            f"{text!r} is not the name of a network interface",
            hint="nic=eth0   # for example",
            slug="not-an-interface",
        )
    return text


def _read_connection(text: str) -> bool:
    if text in ("local", "ansible.builtin.local"):
        return True
    if text in _SSH:
        return False
    raise Bad(
        f"hosts are reached over SSH, not through {text!r}",
        hint="leave this host out",
        slug="connection-unsupported",
    )


def _ignore_value(text: str) -> None:
    return None


_FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "address": ("address", parse_bare),
    "port": ("port", parse_port),
    "user": ("user", parse_user),
    "python": ("python", _read_python),
    "slots": ("slots", parse_count),
    "nic": ("nic", _read_nic),
    "root": ("root", _read_root),
    "max_slots": ("", parse_count),  # Open MPI's limit for oversubscription; we stay within slots
    "binding": ("", _ignore_value),  # MPICH's; each host is pinned by its own topology here
}
_ANSIBLE: dict[str, tuple[str, Callable[[str], Any]]] = {
    **{f"ansible_{prefix}host": _FIELDS["address"] for prefix in ("", "ssh_")},
    **{f"ansible_{prefix}port": _FIELDS["port"] for prefix in ("", "ssh_")},
    **{f"ansible_{prefix}user": _FIELDS["user"] for prefix in ("", "ssh_")},
    "ansible_python_interpreter": _FIELDS["python"],
    "ansible_connection": ("local", _read_connection),
    "ansible_group_priority": ("", _ignore_value),
}
KNOWN = tuple(_FIELDS)


def apply_variables(
    host: Host, values: Iterable[tuple[str, Value]], *, strict: bool
) -> tuple[Host, set[str]]:
    """Return the host with its variables, and the names of those that only plays read.

    `strict` refuses those that look like a misspelled one of ours. Raises InputError.
    """
    unused: set[str] = set()
    fields: set[str] = set()
    for key, value in values:
        field, parse = _field_parser(key)
        if parse is None:
            near = nearest_word(key, KNOWN)
            guess = ask_if_meant(near)
            if strict and (guess or value.place is None or value.text is None):
                hint = f"keys of a host: {', '.join(KNOWN)}"
                what = f"{key!r} is not known{guess}"
                raise Bad(what, hint=hint, slug="unknown-host-key", meant=(key, near)).placed(
                    value.place
                )
            unused.add(key)
            if value.text is not None and _OWN.fullmatch(key):
                host = replace(host, vars=(*host.vars, (key, value.text)))
            continue
        try:
            parsed = parse(_value_text(key, value))
            if strict and field and (field in fields):
                raise Bad(f"{field} is set twice for host {host.name!r}", slug="host-key-set-twice")
        except Bad as e:
            raise e.prefixed(f"{key}: ").placed(value.place) from None
        if field:
            fields.add(field)
            host = replace(host, **{field: parsed})
    return host, unused


def field_of(key: str) -> str:
    """Return the field of Host that a key sets, so that keys can be compared; or ""."""
    return _field_parser(key)[0]


def _field_parser(key: str) -> tuple[str, Callable[[str], Any] | None]:
    name = key.replace("-", "_")
    return _FIELDS.get(name) or _ANSIBLE.get(name) or ("", None)


def _value_text(key: str, value: Value) -> str:
    if value.text is None:
        vault = _ansible_command(key, value, " --ask-vault-pass") if "vault" in value.odd else ""
        raise Bad(value.odd or "expected a plain value", hint=vault, slug="not-plain-value")
    if "{{" in value.text or "{%" in value.text:
        raise Bad(
            "a Jinja template, which ipexctl does not evaluate",
            hint=_ansible_command(key, value),
            slug="jinja-unsupported",
        )
    return value.text


def _ansible_command(key: str, value: Value, options: str = "") -> str:
    file = shlex.quote(value.place.source) if value.place else "FILE"
    return f"ansible all -i {file} -m debug -a var={key}{options}   # shows what to write here"
