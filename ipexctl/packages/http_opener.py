"""HTTP requests with the logins and certificates of package indexes.

A login goes only to the site that it is for. Only the user exempts a site from certificate checks;
the files' sha256 are checked anyway.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import netrc
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from email.message import Message
from functools import partial
from os.path import commonprefix
from pathlib import Path
from typing import IO, Any
from urllib.parse import SplitResult, unquote, urlsplit
from weakref import WeakSet

from ipexctl.errors import InputError, reason_of
from ipexctl.packages.indexes import Indexes, in_variables

Pair = tuple[str, str]  # name and password
# with an IPv4 address at the end, which a router or this machine may translate
_WITH_IPV4 = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")))
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")  # to IPv4 addresses of the own network
# that some version of Python counts as global: for protocols, Azure's own services, relays of 6to4,
# documentation, segment routing
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "168.63.129.16", "192.88.99.0/24", "3fff::/20", "5f00::/16"),
    )
)
_ISATAP = (0x00005EFE, 0x02005EFE)  # before an IPv4 address, in the address of a tunnel to it
_PORTS = {"http": 80, "https": 443}


class Logins:
    """The logins in addresses of options, of pip's settings and uv's variables, and in .netrc."""

    def __init__(self, indexes: Indexes, environ: Mapping[str, str]) -> None:
        urls = (indexes.index_url, *indexes.extra, *indexes.find_links, *in_variables(environ))
        self._given = [(url, pair_in(url)) for url in urls if pair_in(url)]
        self._netrc = _read_netrc(environ)

    def of(self, url: str) -> Pair | None:
        """Return the address' own login, else that of the index that contains it: same scheme, host
        and port, and of several the one with the longest common path. Else .netrc's."""
        parts = _split_url(url)

        def shared(source: tuple[str, Pair | None]) -> int:
            return len(commonprefix((_split_url(source[0]).path, parts.path)))

        same_origin = [source for source in self._given if url_origin(source[0]) == url_origin(url)]
        login = pair_in(url) or max(same_origin, key=shared, default=("", None))[1]
        if login and login[1]:
            return login
        # .netrc identifies hosts, not ports
        auth = self._netrc.authenticators(parts.hostname or "") if self._netrc else None
        return (auth[0], auth[2] or "") if auth and (not login or login[0] == auth[0]) else login


def pair_in(url: str) -> Pair | None:
    parts = _split_url(url)
    if parts.username or parts.password:
        return unquote(parts.username or ""), unquote(parts.password or "")
    return None


def url_without_login(url: str) -> str:
    """Return the same address without a login."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def url_origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port."""
    parts = _split_url(url)
    with suppress(ValueError):
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    return "", "", 0


def _split_url(url: str) -> SplitResult:
    """Split an address; an invalid one has no parts, and its user reports that."""
    with suppress(ValueError):
        return urlsplit(url)
    return urlsplit("")


def _read_netrc(environ: Mapping[str, str]) -> netrc.netrc | None:
    path = environ.get("NETRC") or str(Path(environ.get("HOME") or Path.home()) / ".netrc")
    with suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return netrc.netrc(path)
    return None


def is_public(address: str) -> bool:
    """Decide whether an IP address is one of the internet: not private, link-local or loopback."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.is_site_local or ip in _LOCAL_NAT64:
            return False
        last = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP and not is_public(str(last)):
            return False
        within = any(ip in network for network in _WITH_IPV4)
        ip = ip.ipv4_mapped or ip.sixtofour or (last if within else ip)
    if any(ip in network for network in _NOT_PUBLIC):
        return False
    return ip.is_global and not ip.is_multicast


class Opener:
    """`stays_public`: a public server may not refer to an address that is not: services of this
    machine and its network trust who can reach them. The user may name one."""

    def __init__(
        self, indexes: Indexes, environ: Mapping[str, str], *, stays_public: bool = False
    ) -> None:
        self._logins = Logins(indexes, environ)
        chains = _Chains() if stays_public else None
        https = _Https(_ssl_context(environ.get("SSL_CERT_FILE") or indexes.cert), indexes, chains)
        self._director = urllib.request.build_opener(_Http(chains), https, _Redirects(chains))

    def open(self, request: urllib.request.Request, timeout: float) -> http.client.HTTPResponse:
        """Open the request. Raises urllib's errors, without the login in their text."""
        if login := self._logins.of(request.full_url):
            credentials = base64.b64encode(":".join(login).encode()).decode()
            # an ordinary header would be sent on to the target of a redirect
            request.add_unredirected_header("Authorization", f"Basic {credentials}")
        request.full_url = url_without_login(request.full_url)
        answer: http.client.HTTPResponse = self._director.open(request, timeout=timeout)
        return answer


class NotPublic(OSError):
    """A public server refers to an address that is not."""


class _Chains:
    """Which requests follow from a public server. The addresses that count are those to which we
    are connected: a name may have another one when it is looked up again, and one address has many
    spellings."""

    def __init__(self) -> None:
        self._public: WeakSet[urllib.request.Request] = WeakSet()  # and what followed from these

    def follow(self, before: urllib.request.Request, after: urllib.request.Request) -> None:
        if before in self._public:
            self._public.add(after)

    def connect(
        self, request: urllib.request.Request, place: tuple[str, int], *more: Any
    ) -> socket.socket:
        """Connect, as http.client does, which sends nothing before this returns."""
        connection = socket.create_connection(place, *more)
        address = connection.getpeername()[0]
        # a proxy connects for us: its own address is not the one that is asked for, and what it
        # reaches may be public
        if _has_proxy(request) or is_public(address):
            self._public.add(request)
        elif request in self._public:
            connection.close()
            raise NotPublic(f"it refers to {address}, an address that is not public")
        return connection


def _has_proxy(request: urllib.request.Request) -> bool:
    """Return whether urllib has set a proxy for the request, or a tunnel through one."""
    return request.has_proxy() or bool(vars(request).get("_tunnel_host"))


def _connection_maker(
    kind: type[http.client.HTTPConnection], chains: _Chains | None, request: urllib.request.Request
) -> Any:
    """Return what urllib makes its connection with."""

    def make(host: str, **given: Any) -> http.client.HTTPConnection:
        made = kind(host, **given)
        if chains:
            vars(made)["_create_connection"] = partial(chains.connect, request)
        return made

    return make


class _Http(urllib.request.HTTPHandler):
    def __init__(self, chains: _Chains | None) -> None:
        super().__init__()
        self._chains = chains

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connection_maker(http.client.HTTPConnection, self._chains, req), req)


class _Https(urllib.request.HTTPSHandler):
    """Used for every address of a chain of redirects: each site's own certificate counts."""

    def __init__(self, checked: ssl.SSLContext, indexes: Indexes, chains: _Chains | None) -> None:
        super().__init__()
        self._checked, self._indexes, self._chains = checked, indexes, chains
        self._unchecked = ssl.create_default_context()
        self._unchecked.check_hostname = False
        self._unchecked.verify_mode = ssl.CERT_NONE

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        # not req.host, which may be a proxy
        trusted = self._indexes.is_trusted(req.full_url)
        context = self._unchecked if trusted else self._checked
        try:
            maker = _connection_maker(http.client.HTTPSConnection, self._chains, req)
            return self.do_open(maker, req, context=context)
        except urllib.error.URLError as e:
            e.filename = req.full_url  # the site to blame, at the end of redirects
            raise


class _Redirects(urllib.request.HTTPRedirectHandler):
    def __init__(self, chains: _Chains | None) -> None:
        self._chains = chains

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> urllib.request.Request | None:
        fp.close()  # urllib would read its body, of any length
        if urlsplit(newurl).scheme not in ("http", "https"):
            return None
        new = super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        header = req.get_header("Authorization")
        if new and header and url_origin(new.full_url) == url_origin(req.full_url):
            new.add_unredirected_header("Authorization", header)
        if new and self._chains:
            self._chains.follow(req, new)
        return new


def _ssl_context(cafile: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cafile or None)
    except OSError as e:
        raise InputError(
            f"cannot read the CA certificates in {cafile}",
            why=reason_of(e),
            hint="PIP_CERT=FILE, or SSL_CERT_FILE=FILE   # in PEM",
            slug="ca-unreadable",
        ) from None
