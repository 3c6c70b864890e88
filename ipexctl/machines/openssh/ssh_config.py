"""ssh_config as far as needed to ask `ssh -G` once for many hosts instead of once for each.

`ssh -G` stays the authority. This module only tells which hosts must get the same answer (they
match the same `Host` lines), and puts the host's own name into that answer.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache

from ipexctl.inventory.inventory import Host
from ipexctl.quick_dataclass import dataclass

Patterns = tuple[str, ...]
Load = Callable[[str], Sequence[str]]  # an Include's argument -> the texts of the files it names

MAX_INCLUDE_DEPTH = 16
MAX_INCLUDES = 4096  # files that include each other multiply long before they are too deep
_LINE = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*)")
_NUMBER = re.compile(r"[0-9]{1,9}")  # str.isdigit takes more than int does
_TIME_PIECE = re.compile(r"([0-9]{1,9})([smhdwSMHDW]?)")
_TIME = re.compile(f"(?:{_TIME_PIECE.pattern}){{1,9}}")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_TOKEN = re.compile(r"%(.)")
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
# ssh -G prints these with their tokens unexpanded; `expand` does it later, for each host.
_RAW = frozenset({"hostname", "identityfile", "certificatefile", "identityagent", "proxycommand"})
_ABOUT_THE_HOST = frozenset("hnkCjpr")


@dataclass(frozen=True)
class Setting:
    """One line, and the `Host` lines that must all match for it to hold."""

    conditions: tuple[Patterns, ...]
    key: str
    value: str


@dataclass(frozen=True)
class Config:
    settings: tuple[Setting, ...]
    plain: bool  # nothing but Host patterns decides what a host gets

    @property
    def names(self) -> tuple[str, ...]:
        """Hosts that have a `Host` line of their own, in its order."""
        lines = (s.conditions[-1] for s in self.settings if s.conditions)
        return tuple(dict.fromkeys(p for line in lines for p in line if not set(p) & set("*?!")))

    def host_class(self, name: str) -> tuple[bool, ...]:
        """Hosts with the same value get the same answer, but for their own names."""
        lines = dict.fromkeys(c for s in self.settings for c in s.conditions)
        return tuple(host_matches(patterns, name) for patterns in lines)

    def values(self, name: str, key: str) -> tuple[str, ...]:
        """Every value that holds for this host, in order; the first counts for most keywords."""
        return tuple(
            s.value
            for s in self.settings
            if s.key == key and all(host_matches(c, name) for c in s.conditions)
        )


PLAIN = Config((), plain=True)


@dataclass(frozen=True)
class Answer:
    """How to reach one host. Tokens and ~ are still in the values; see `expand`."""

    name: str
    hostname: str
    user: str
    port: int = 22
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identities_only: bool = False
    identity_agent: str = ""  # "": SSH_AUTH_SOCK decides; "none": no agent
    user_known_hosts: tuple[str, ...] = ()
    global_known_hosts: tuple[str, ...] = ()
    proxy_jump: tuple[str, ...] = ()
    proxy_command: str = ""
    host_key_alias: str = ""
    address_family: str = "any"
    connect_timeout: float | None = None
    # algorithms that the configuration allows, () where it does not name any
    ciphers: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    kex: tuple[str, ...] = ()
    # what only the ssh program can do
    needs: tuple[str, ...] = ()  # settings, as in _NEEDS_SSH
    kerberos: bool = False  # with a ticket
    control_path: str = ""  # while a shared connection is open there
    given: Host = field(default=Host(""), compare=False)  # as the hostfile or ProxyJump names it


DEFAULTS = Answer(
    "",
    "",
    "",
    identity_files=tuple(
        f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "dsa")
    ),
    user_known_hosts=("~/.ssh/known_hosts", "~/.ssh/known_hosts2"),
    global_known_hosts=("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"),
)
_NEEDS_SSH = ("RevokedHostKeys", "PKCS11Provider", "HostbasedAuthentication")


# --- reading the text ----------------------------------------------------------------------------


def parse_config(texts: Iterable[tuple[str, Load]]) -> Config:
    """The user's file, then the system's, each with the way to follow its Include lines."""
    settings: list[Setting] = []
    budget = iter(range(MAX_INCLUDES))
    for text, load in texts:
        settings += _parse(text, _Load(load, budget), (), MAX_INCLUDE_DEPTH)
    return Config(tuple(settings), plain=all(_is_plain(s) for s in settings))


def host_matches(patterns: Patterns, name: str) -> bool:
    """A `Host` line: some pattern fits and no negated one does."""
    fits = False
    for pattern in patterns:
        if wildcard(pattern.removeprefix("!")).fullmatch(name):
            if pattern.startswith("!"):
                return False
            fits = True
    return fits


@lru_cache(maxsize=1024)
def wildcard(pattern: str) -> re.Pattern[str]:
    """OpenSSH's patterns: * and ? only, [ ] are themselves.

    fnmatch makes a pattern that never goes back over a *: ten of them would else take minutes.
    """
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


@dataclass(frozen=True)
class _Load:
    """Follows an Include line; None when there were too many."""

    load: Load
    budget: Iterator[int]

    def __call__(self, word: str) -> Sequence[str] | None:
        texts = self.load(word)
        return None if any(next(self.budget, None) is None for _ in texts) else texts


def _parse(text: str, load: _Load, outer: tuple[Patterns, ...], depth: int) -> list[Setting]:
    conditions = outer
    settings: list[Setting] = []
    for line in text.split("\n"):
        match = _LINE.match(line)
        if not match:
            continue
        key, value = match.group(1).lower(), match.group(2).rstrip()
        if key == "host":
            conditions = (*outer, _words(value))
        elif key == "include" and depth:
            for word in _words(value):
                texts = load(word)
                if texts is None:  # an include that stays one is not plain: ssh is asked
                    settings.append(Setting(conditions, key, value))
                for included in texts or ():
                    settings += _parse(included, load, conditions, depth - 1)
        else:
            settings.append(Setting(conditions, key, value))
    return settings


def _words(value: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(value, comments=True))
    except ValueError:  # an open quote: ssh will say so itself
        return (value,)


def _is_plain(setting: Setting) -> bool:
    if setting.key in ("match", "include"):
        return False
    if setting.key == "canonicalizehostname":
        return setting.value.lower() in ("no", "false", "none")
    if setting.key in _RAW:
        return True
    return not _ABOUT_THE_HOST.intersection(_TOKEN.findall(setting.value))


# --- what ssh -G says ----------------------------------------------------------------------------


def read_answer(output: str, name: str, config: Config = PLAIN) -> Answer:
    """The output of `ssh -G NAME`. It has no quotes: `config` tells names with spaces."""
    values: dict[str, list[str]] = {}
    for line in output.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key.lower(), []).append(value)

    def first(key: str) -> str:
        value = values.get(key, [""])[0]
        return "" if value.lower() == "none" and key != "identityagent" else value

    def files(key: str) -> tuple[str, ...]:
        return _file_names(first(key), key, config)

    def listed(key: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in first(key).split(",") if word.strip())

    port = first("port")
    return Answer(
        name,
        hostname=first("hostname") or name,
        user=first("user"),
        port=int(port) if _NUMBER.fullmatch(port) else 22,
        identity_files=tuple(values.get("identityfile", ())),
        certificate_files=tuple(values.get("certificatefile", ())),
        identities_only=first("identitiesonly") == "yes",
        identity_agent=first("identityagent"),
        user_known_hosts=files("userknownhostsfile"),
        global_known_hosts=files("globalknownhostsfile"),
        proxy_jump=listed("proxyjump"),
        proxy_command=first("proxycommand"),
        host_key_alias=first("hostkeyalias"),
        address_family=first("addressfamily") or "any",
        connect_timeout=_seconds(first("connecttimeout")),
        ciphers=listed("ciphers"),
        macs=listed("macs"),
        kex=listed("kexalgorithms"),
        needs=tuple(word for word in _NEEDS_SSH if first(word.lower()) not in ("", "no")),
        kerberos=first("gssapiauthentication") == "yes",
        control_path=first("controlpath"),
    )


def for_another(answer: Answer, config: Config, name: str) -> Answer | None:
    """The answer for a host of the same class; None if it cannot be derived from this one."""
    found = config.values(answer.name, "hostname")
    template = " ".join(_words(found[0])) if found else "%h"
    if _hostname(template, answer.name) != answer.hostname:
        return None
    return replace(answer, name=name, hostname=_hostname(template, name))


def _hostname(template: str, name: str) -> str:
    expanded = _TOKEN.sub(lambda m: {"h": name, "%": "%"}.get(m[1], m[0]), template)
    return expanded if ":" in expanded else expanded.lower()


def _file_names(value: str, key: str, config: Config) -> tuple[str, ...]:
    """Several names in one value: as they were quoted in the text that it comes from."""
    for setting in config.settings:
        if setting.key == key:
            words = [(".*" if w.startswith("~") else "", w) for w in _words(setting.value)]
            pattern = " ".join(f"({home}{re.escape(w[bool(home) :])})" for home, w in words)
            found = re.fullmatch(pattern, value)
            if found:
                return found.groups()
    return tuple(value.split())


def _seconds(text: str) -> float | None:
    """As ssh writes times: 90, 1m30s; None for what is none."""
    if not _TIME.fullmatch(text):
        return None
    return float(sum(int(n) * _UNITS[unit.lower()] for n, unit in _TIME_PIECE.findall(text)))


# --- tokens --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Me:
    """The local side of the tokens."""

    user: str
    home: str
    uid: int
    hostname: str
    env: Mapping[str, str]
    known: bool = True  # the user database has an entry


def expand(value: str, answer: Answer, me: Me) -> str:
    """~, ${VARIABLE} and %-tokens in a path. Unknown tokens stay as they are."""
    if value == "~" or value.startswith("~/"):
        value = me.home + value[1:]
    return _tokens(_VARIABLE.sub(lambda m: me.env.get(m[1], ""), value), answer, me)


def proxy_command(answer: Answer, me: Me) -> str:
    """The ProxyCommand for the user's shell, which sees to ~ and ${VARIABLE} itself."""
    return _tokens(answer.proxy_command, answer, me)


def _tokens(value: str, answer: Answer, me: Me) -> str:
    tokens = {
        "%": "%",
        "d": me.home,
        "h": answer.hostname,
        "i": str(me.uid),
        "k": answer.host_key_alias or answer.name,
        "L": me.hostname.partition(".")[0],
        "l": me.hostname,
        "n": answer.name,
        "p": str(answer.port),
        "r": answer.user,
        "u": me.user,
    }
    return _TOKEN.sub(lambda m: tokens.get(m[1], m[0]), value)


def parse_jump(hop: str) -> tuple[str, str, int]:
    """`[user@]host[:port]` or `ssh://...` -> host, user, port ("" and 0: not given)."""
    hop = hop.removeprefix("ssh://").rstrip("/")
    user, _, rest = hop.rpartition("@")
    if rest.startswith("["):
        host, _, tail = rest[1:].partition("]")
        port = tail.removeprefix(":")
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    else:
        host, port = rest, ""
    return host, user, int(port) if _NUMBER.fullmatch(port) else 0
