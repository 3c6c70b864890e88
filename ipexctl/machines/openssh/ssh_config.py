"""What `ssh -G` reports about a host, and what only the text of ssh_config tells: which hosts it
names, and which get the same answer. `ssh -G` stays the authority."""

from __future__ import annotations

import re
import shlex
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field, replace

from ipexctl.inventory.inventory import Host
from ipexctl.inventory.nodeset import compile_wildcard
from ipexctl.quick_dataclass import dataclass

_LINE = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*)")
_NUMBER = re.compile(r"[0-9]{1,9}")  # str.isdigit accepts more than int does
_TOKEN = re.compile(r"%(.)")
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
# ssh -G prints these with unexpanded tokens; `expand` replaces them later, for each host.
_RAW = frozenset({"hostname", "identityfile", "certificatefile", "identityagent", "proxycommand"})


@dataclass(frozen=True)
class Config:
    """The content of all files together."""

    settings: tuple[tuple[str, str], ...] = ()  # keyword and value
    host_lines: tuple[tuple[str, ...], ...] = ()  # the patterns of each
    plain: bool = True  # only Host patterns decide what a host gets

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts that have a `Host` line of their own, in its order."""
        words = (word for line in self.host_lines for word in line)
        return tuple(dict.fromkeys(word for word in words if not set(word) & set("*?!")))

    def host_class(self, host: Host) -> Hashable:
        """Return a key for hosts that match the same `Host` lines: they get the same answer except
        for their own names."""
        return (
            tuple(_host_line_fits(line, host.name) for line in self.host_lines)
            if self.plain
            else host
        )


@dataclass(frozen=True)
class SshSettings:
    """How to reach one host. The values still contain tokens and ~; see `expand`."""

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
    # algorithms that the configuration allows; () if it does not name any
    ciphers: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    kex: tuple[str, ...] = ()
    # what only the ssh program can do
    needs: tuple[str, ...] = ()  # settings, as in _NEEDS_SSH
    kerberos: bool = False  # with a ticket
    control_path: str = ""  # while a shared connection is open there
    # the name in its `Host` line, perhaps in another case; "": the file of -F has none
    configured: str | None = field(default=None, compare=False)
    # the user that ssh_config names, if the hostfile or the command line names another
    usual_user: str = field(default="", compare=False)
    given: Host = field(default=Host(""), compare=False)  # as the hostfile or ProxyJump names it


DEFAULTS = SshSettings(
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


def parse_config(texts: Iterable[str]) -> Config:
    """Parse the files that ssh reads, included ones too, each once."""
    lines = [line for text in texts for line in _keyword_lines(text)]
    settings = tuple(line for line in lines if line[0] != "host")
    host_lines = dict.fromkeys(_split_words(value) for key, value in lines if key == "host")
    return Config(settings, tuple(host_lines), all(_is_plain(*line) for line in settings))


def _is_plain(key: str, value: str) -> bool:
    if key == "canonicalizehostname":
        return value.lower() in ("no", "false", "none")
    if key == "include":  # variables in it are not expanded here
        return not set(value) & set("%$")
    return key in _RAW or (key != "match" and "%" not in value)


def _host_line_fits(patterns: tuple[str, ...], name: str) -> bool:
    """Decide whether a `Host` line applies: some pattern fits and no negated one does."""
    fit = [p for p in patterns if compile_wildcard(p.removeprefix("!")).fullmatch(name)]
    return bool(fit) and not any(p.startswith("!") for p in fit)


def included_files(text: str) -> tuple[str, ...]:
    """Return the files that its Include lines name, with ~ and wildcards."""
    values = (value for key, value in _keyword_lines(text) if key == "include")
    return tuple(word for value in values for word in _split_words(value))


def _keyword_lines(text: str) -> Iterable[tuple[str, str]]:
    matches = filter(None, map(_LINE.match, text.split("\n")))
    return ((match[1].lower(), match[2].rstrip()) for match in matches)


def _split_words(value: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(value, comments=True))
    except ValueError:  # an open quote: ssh will report it
        return (value,)


# --- the output of ssh -G -----------------------------------------------------------------------


def read_answer(output: str, name: str) -> SshSettings:
    """Parse the output of `ssh -G NAME`. It has no quotes, so file names cannot contain spaces."""
    values: dict[str, list[str]] = {}
    for line in output.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key.lower(), []).append(value)

    def first(key: str) -> str:
        value = values.get(key, [""])[0]
        return "" if value.lower() == "none" and key != "identityagent" else value

    def listed(key: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in first(key).split(",") if word.strip())

    port, patience = first("port"), first("connecttimeout")
    return SshSettings(
        name,
        hostname=first("hostname") or name,
        user=first("user"),
        port=int(port) if _NUMBER.fullmatch(port) else 22,
        identity_files=tuple(values.get("identityfile", ())),
        certificate_files=tuple(values.get("certificatefile", ())),
        identities_only=first("identitiesonly") == "yes",
        identity_agent=first("identityagent"),
        user_known_hosts=tuple(first("userknownhostsfile").split()),
        global_known_hosts=tuple(first("globalknownhostsfile").split()),
        proxy_jump=listed("proxyjump"),
        proxy_command=first("proxycommand"),
        host_key_alias=first("hostkeyalias"),
        address_family=first("addressfamily") or "any",
        connect_timeout=float(patience) if _NUMBER.fullmatch(patience) else None,
        ciphers=listed("ciphers"),
        macs=listed("macs"),
        kex=listed("kexalgorithms"),
        needs=tuple(word for word in _NEEDS_SSH if first(word.lower()) not in ("", "no")),
        kerberos=first("gssapiauthentication") == "yes",
        control_path=first("controlpath"),
    )


def for_another(answer: SshSettings, config: Config, name: str) -> SshSettings | None:
    """Return the answer for a host of the same class; None if a HostName may be in this one."""
    values = (value.lower() for key, value in config.settings if key == "hostname")
    hostnames = {word for value in values for word in _split_words(value)}
    if answer.hostname != _own_name(answer.name) or answer.hostname in hostnames:
        return None
    return replace(answer, name=name, hostname=_own_name(name))


def _own_name(name: str) -> str:
    return name if ":" in name else name.lower()


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


def expand_path(value: str, answer: SshSettings, me: Me) -> str:
    """Expand ~, ${VARIABLE} and %-tokens in a path. Unknown tokens stay unchanged."""
    if value == "~" or value.startswith("~/"):
        value = me.home + value[1:]
    return _expand_tokens(_VARIABLE.sub(lambda m: me.env.get(m[1], ""), value), answer, me)


def proxy_command(answer: SshSettings, me: Me) -> str:
    """Return the ProxyCommand for the user's shell, which expands ~ and ${VARIABLE} itself."""
    return _expand_tokens(answer.proxy_command, answer, me)


def _expand_tokens(value: str, answer: SshSettings, me: Me) -> str:
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
    """Parse `[user@]host[:port]` or `ssh://...` to host, user, port ("" and 0: not given)."""
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
