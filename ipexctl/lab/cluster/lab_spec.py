"""The properties of a lab: frozen values, and the words of the command line. Pure."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

from ipexctl.base.quoting import quote_for_pasting
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass

FAULTS = ("kill", "freeze", "unplug", "changed-key", "fill-disk", "no-sshd")
MAX_HOSTS = 200
MAX_FLAT = 1000


def lab_command(verb: str, lab: str, *words: str) -> str:
    """Return the command to type for the lab of that name."""
    options = () if lab == "lab" else ("--name", lab)
    end = words.index("--") if "--" in words else len(words)  # a command of the host is behind it
    return quote_for_pasting(("ipexctl", "lab", verb, *words[:end], *options, *words[end:]))


@dataclass(frozen=True)
class HostSpec:
    """One host. Zero or "" means: as on this machine."""

    name: str = ""
    shm: int = 0
    nics: tuple[str, ...] = ("eth0",)
    rate: str = ""  # the rate of each interface, or 100mbit+1gbit: one for each
    disk: int = 0
    # Paths on the host, each with the file or folder of this machine that covers it.
    covers: tuple[tuple[str, str], ...] = ()

    @property
    def rates(self) -> tuple[str, ...]:
        """The rate of each interface."""
        rates = self.rate.split("+")
        return tuple(rates) if len(rates) > 1 else (self.rate,) * len(self.nics)


@dataclass(frozen=True)
class LabSpec:
    """A lab. `flat` > 0 asks for one host with that many addresses instead of `hosts`."""

    name: str = "lab"
    hosts: tuple[HostSpec, ...] = ()
    flat: int = 0
    ipv6: bool = False  # only IPv6 addresses, except loopback

    @classmethod
    def plain(cls, count: int, **rest: Any) -> LabSpec:
        """Return `count` ordinary hosts, named node01 and on."""
        return cls(hosts=(HostSpec(),) * count, **rest).checked()

    def checked(self) -> LabSpec:
        """Return the same with every host named, or raise InputError."""
        check_name(self.name)
        if self.flat:
            return self._check_flat()
        if not 1 <= len(self.hosts) <= MAX_HOSTS:
            raise InputError(
                f"a lab must have 1 to {MAX_HOSTS} hosts, not {len(self.hosts)}",
                slug="host-count-invalid",
            )
        hosts = tuple(_checked(host, i) for i, host in enumerate(self.hosts, 1))
        names = [host.name for host in hosts]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InputError(f"host name '{repeated[0]}' is listed twice", slug="host-listed-twice")
        return replace(self, hosts=hosts)

    def _check_flat(self) -> LabSpec:
        if self.ipv6:
            raise InputError(
                "a flat lab has IPv4 addresses",
                hint="leave out --flat or --ipv6",
                slug="options-conflict",
            )
        if self.hosts:
            raise InputError(
                "a flat lab has no shapes",
                hint="leave out --flat or --host/--isa",
                slug="options-conflict",
            )
        if not 1 <= self.flat <= MAX_FLAT:
            raise InputError(
                f"a flat lab must have 1 to {MAX_FLAT} addresses, not {self.flat}",
                slug="host-count-invalid",
            )
        return self

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LabSpec:
        hosts = tuple(
            HostSpec(**{**h, "nics": tuple(h["nics"]), "covers": tuple(map(tuple, h["covers"]))})
            for h in data["hosts"]
        )
        return cls(**{**data, "hosts": hosts})


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def check_name(text: str) -> None:
    """Raise InputError for an invalid name of a lab: it becomes the name of a folder."""
    _need(_NAME, text, "lab name", "lower-case letters, digits and '-', at most 32")


def parse_hosts(count: int, options: list[str]) -> tuple[HostSpec, ...]:
    """Return the hosts of `-n COUNT` and every `--host NAME:key=value,...`."""
    hosts = {f"node{i:02d}": HostSpec(name=f"node{i:02d}") for i in range(1, count + 1)}
    for option in options:
        name, _, words = option.partition(":")
        if name not in hosts:
            raise InputError(
                f"--host {option}: no host '{name}' in this lab",
                hint=_known(hosts),
                slug="unknown-lab-host",
            )
        hosts[name] = parse_shape(hosts[name], words)
    return tuple(hosts.values())


def parse_shape(host: HostSpec, words: str) -> HostSpec:
    """Return `host` with the changes of `nic=ens3+eth1,shm=64m`."""
    changes: dict[str, Any] = {}
    for word in filter(None, words.split(",")):
        key, _, value = word.partition("=")
        if key in _VALUES and value:
            field, parse = _VALUES[key]
            changes[field] = parse(value)
        else:
            keys = ", ".join(f"{k}=" for k in _VALUES)
            raise InputError(
                f"unknown shape '{word}'", hint=f"use one of: {keys}", slug="unknown-shape"
            )
    return replace(host, **changes)


def parse_size(text: str) -> int:
    """Parse 64k, 200M, 2g or a number of bytes."""
    match = re.fullmatch(r"(\d{1,18})([kmg]?)b?", text.lower())
    if not match or not int(match[1]):
        raise InputError(
            f"'{text}' is not a size", hint="write it as 64k, 200m or 2g", slug="not-a-size"
        )
    return int(match[1]) << 10 * "bkmg".index(match[2] or "b")


def _plus(text: str) -> tuple[str, ...]:
    return tuple(text.split("+"))


_VALUES: dict[str, tuple[str, Any]] = {
    "shm": ("shm", parse_size),
    "nic": ("nics", _plus),
    "rate": ("rate", str),
    "disk": ("disk", parse_size),
}
# field of HostSpec -> its word in --host
WORDS = {field: word for word, (field, _) in _VALUES.items()}

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_NIC = re.compile(r"(?!lo$|\.)[A-Za-z0-9_.-]{1,15}")
_RATE = re.compile(r"(\d+(\.\d+)?[kmgt]?bit)?")
_MAX_NICS = 4
_LEAST_DISK = 8 * 1024**2


def _checked(host: HostSpec, number: int) -> HostSpec:
    host = replace(host, name=host.name or f"node{number:02d}")
    _need(_NAME, host.name, "host name", "lower-case letters, digits and '-', at most 32")
    for rate in host.rates:
        _need(_RATE, rate, "link rate", "such as 100mbit, or 100mbit+1gbit for two interfaces")
    for nic in host.nics:
        _need(_NIC, nic, "network card name", "at most 15 characters, and not lo")
    if not 1 <= len(set(host.nics)) == len(host.nics) <= _MAX_NICS:
        raise InputError(
            f"{host.name}: a host has 1 to {_MAX_NICS} network cards with different names",
            slug="lab-nics-invalid",
        )
    if len(host.rates) != len(host.nics):
        raise InputError(
            f"{host.name}: {len(host.rates)} link rates for {len(host.nics)} network cards",
            hint="nic=eth0+eth1,rate=100mbit+1gbit   # or one rate for all of them",
            slug="lab-nics-invalid",
        )
    if host.disk and host.disk < _LEAST_DISK:
        raise InputError(
            f"{host.name}: the disk must be at least 8 MiB (8m)", slug="lab-disk-too-small"
        )
    return host


def _need(pattern: re.Pattern[str], text: str, what: str, hint: str) -> None:
    if not pattern.fullmatch(text):
        raise InputError(f"'{text}' is not a valid {what}", hint=hint, slug="bad-lab-value")


def _known(hosts: dict[str, HostSpec]) -> str:
    return "the hosts are " + ", ".join(list(hosts)[:8])
