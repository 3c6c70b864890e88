"""What `ssh -G` says about a host, and which hosts the text of an ssh_config names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import field

from ipexctl.inventory.inventory import Host
from ipexctl.quick_dataclass import dataclass

_LINE = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*)")
_NUMBER = re.compile(r"[0-9]{1,9}")  # str.isdigit takes more than int does
_TOKEN = re.compile(r"%(.)")
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


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
    config_named: bool = field(default=False, compare=False)  # by -F or a settings file
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


def host_names(text: str) -> tuple[str, ...]:
    """Hosts that have a `Host` line of their own, in its order."""
    words = (word for key, value in keyword_lines(text) if key == "host" for word in _words(value))
    return tuple(dict.fromkeys(word for word in words if not set(word) & set("*?!")))


def included_files(text: str) -> tuple[str, ...]:
    """The files that its Include lines name; with ~ and wildcards."""
    values = (value for key, value in keyword_lines(text) if key == "include")
    return tuple(word for value in values for word in _words(value))


def keyword_lines(text: str) -> Iterable[tuple[str, str]]:
    matches = filter(None, map(_LINE.match, text.split("\n")))
    return ((match[1].lower(), match[2].rstrip()) for match in matches)


def _words(value: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(value, comments=True))
    except ValueError:  # an open quote: ssh will say so itself
        return (value,)


# --- what ssh -G says ----------------------------------------------------------------------------


def read_answer(output: str, name: str) -> Answer:
    """The output of `ssh -G NAME`."""
    values: dict[str, list[str]] = {}
    for line in output.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key.lower(), []).append(value)

    def first(key: str) -> str:
        value = values.get(key, [""])[0]
        return "" if value.lower() == "none" and key != "identityagent" else value

    def files(key: str) -> tuple[str, ...]:
        return tuple(first(key).split())

    def listed(key: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in first(key).split(",") if word.strip())

    port, patience = first("port"), first("connecttimeout")
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
        connect_timeout=float(patience) if _NUMBER.fullmatch(patience) else None,
        ciphers=listed("ciphers"),
        macs=listed("macs"),
        kex=listed("kexalgorithms"),
        needs=tuple(word for word in _NEEDS_SSH if first(word.lower()) not in ("", "no")),
        kerberos=first("gssapiauthentication") == "yes",
        control_path=first("controlpath"),
    )


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
