"""An inventory as the hostfile of another program, by what that program's own parser takes.

MPI's hostfiles have no user, port or python: what is lost is said in notes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_address

from ipexctl.errors import InputError
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass

_FIELDS = ("address", "port", "user", "python", "slots", "nic", "root")
_ANSIBLE = {
    "address": "ansible_host",
    "port": "ansible_port",
    "user": "ansible_user",
    "python": "ansible_python_interpreter",
}


@dataclass(frozen=True)
class Rendered:
    text: str
    notes: tuple[str, ...] = ()


def render(inventory: Inventory, form: str) -> Rendered:
    """Raises InputError where the program cannot be told about these hosts at all."""
    text, keeps = _FORMS[form]
    return Rendered(text(inventory), tuple(_notes(inventory, form, keeps)))


def _hydra(inventory: Inventory) -> str:
    """Intel MPI and MPICH: host:4. No comments, since MPICH refuses those behind a host."""
    return "".join(f"{_hydra_host(h)}{f':{h.slots}' if h.slots else ''}\n" for h in inventory.hosts)


def _hydra_host(host: Host) -> str:
    where = _where(host)
    if ":" in where:
        raise InputError(
            f"{where} cannot be written to a hostfile of Intel MPI or MPICH",
            why="they read what follows the first colon as a number of slots",
            hint="give the host a name in /etc/hosts and use the name",
            slug="address-not-writable",
        )
    return where


def _openmpi(inventory: Inventory) -> str:
    return "".join(
        f"{_where(h)}{f' slots={h.slots}' if h.slots else ''}\n" for h in inventory.hosts
    )


def _deepspeed(inventory: Inventory) -> str:
    """Every line needs slots=N: a bare name is a bad entry to DeepSpeed."""
    return "".join(f"{_where(h)} slots={h.slots or 1}\n" for h in inventory.hosts)


def _ipexrun(inventory: Inventory) -> str:
    return "".join(f"{_where(h)}\n" for h in inventory.hosts)


def _slurm(inventory: Inventory) -> str:
    return fold(h.name for h in inventory.hosts) + "\n"


def _hostfile(inventory: Inventory) -> str:
    return "".join(" ".join((h.name, *_words(h, {}))) + "\n" for h in inventory.hosts)


def _yaml(inventory: Inventory) -> str:
    lines = ["hosts:", *_yaml_hosts(inventory.hosts, {}, "  ")]
    groups = members(inventory)
    if groups:
        lines += ["groups:"]
        lines += [
            f"  {_quoted(g)}: [{', '.join(map(_quoted, names))}]" for g, names in groups.items()
        ]
    return "\n".join(lines) + "\n"


def _ansible_yaml(inventory: Inventory) -> str:
    lines = ["all:", "  hosts:", *_yaml_hosts(inventory.hosts, _ANSIBLE, "    ")]
    groups = members(inventory)
    lines += ["  children:"] if groups else []
    for group, names in groups.items():
        lines += [f"    {_quoted(group)}:", "      hosts:"]
        lines += [f"        {_quoted(name)}:" for name in names]
    return "\n".join(lines) + "\n"


def _ansible_ini(inventory: Inventory) -> str:
    lines = [" ".join((h.name, *_words(h, _ANSIBLE), *_own(h))) for h in inventory.hosts]
    for group, names in members(inventory).items():
        lines += ["", f"[{group}]", *names]
    return "\n".join(lines) + "\n"


_FORMS: dict[str, tuple[Callable[[Inventory], str], tuple[str, ...]]] = {
    "ansible": (_ansible_ini, (*_FIELDS, "groups", "vars")),
    "ansible-yaml": (_ansible_yaml, (*_FIELDS, "groups", "vars")),
    "deepspeed": (_deepspeed, ("address", "slots")),
    "hostfile": (_hostfile, _FIELDS),
    "intelmpi": (_hydra, ("address", "slots")),
    "ipexrun": (_ipexrun, ("address",)),
    "mpich": (_hydra, ("address", "slots")),
    "openmpi": (_openmpi, ("address", "slots")),
    "slurm": (_slurm, ()),
    "yaml": (_yaml, (*_FIELDS, "groups", "vars")),
}
FORMS = tuple(_FORMS)


# --- pieces --------------------------------------------------------------------------------------


def members(inventory: Inventory) -> dict[str, tuple[str, ...]]:
    """Group -> its hosts, in the order of the inventory."""
    names = sorted({group for host in inventory.hosts for group in host.groups})
    return {g: tuple(h.name for h in inventory.hosts if g in h.groups) for g in names}


def _where(host: Host) -> str:
    """The name to connect to, since these programs log in themselves."""
    return host.address or host.name


def _words(host: Host, names: dict[str, str]) -> Iterator[str]:
    for field in _FIELDS:
        value = getattr(host, field)
        if value:
            yield f"{names.get(field, field)}={value}"
    if host.local:
        yield "ansible_connection=local"


def _own(host: Host) -> Iterator[str]:
    """The host's variables for plays, on a line of an INI inventory."""
    return (f"{name}={shlex.quote(value)}" for name, value in host.vars)


def _yaml_hosts(hosts: tuple[Host, ...], names: dict[str, str], indent: str) -> Iterator[str]:
    for host in hosts:
        values = [word.partition("=") for word in _words(host, names)]
        inside = ", ".join(
            [f"{key}: {_scalar(value)}" for key, _, value in values]
            + [f"{name}: {json.dumps(value)}" for name, value in host.vars]
        )
        yield f"{indent}{_quoted(host.name)}:" + (f" {{{inside}}}" if inside else "")


def _scalar(value: str) -> str:
    return value if value.isdigit() else _quoted(value)


def _quoted(text: str) -> str:
    """Quoted only if YAML would read it differently; a JSON string is valid YAML."""
    plain = text.replace("-", "").replace("_", "").replace(".", "")
    safe = text[0].isalpha() and plain.isalnum() and text.lower() not in _YAML_WORDS
    return text if safe else json.dumps(text)


_YAML_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


def _notes(inventory: Inventory, form: str, keeps: tuple[str, ...]) -> Iterator[str]:
    lost = {
        field: [h.name for h in inventory.hosts if getattr(h, field)]
        for field in (*_FIELDS, "groups", "vars")
        if field not in keeps
    }
    ssh = [name for name in ("user", "port", "address") if lost.get(name)]
    if ssh:
        names = dict.fromkeys(name for field in ssh for name in lost[field])
        yield f"{' and '.join(ssh)} of {fold(names)} are lost: put them in ssh_config"
    others = [
        name for name in ("python", "slots", "nic", "root", "groups", "vars") if lost.get(name)
    ]
    if others:
        said = ", ".join(others).replace("vars", "variables")
        yield f"lost in this format: {said}"
    bare = [h.name for h in inventory.hosts if not h.slots]
    if form == "deepspeed" and bare:
        yield f"no number of slots for {fold(bare)}: written as slots=1"
    if form == "ipexrun" and not _is_address(_where(inventory.hosts[0])):
        yield "ipexrun requires, in line 1, an IP address of the machine it is started on"


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def plain(inventory: Inventory) -> tuple[Host, ...]:
    """The hosts without their places, to compare what two texts say."""
    return tuple(replace(host, place=None) for host in inventory.hosts)
