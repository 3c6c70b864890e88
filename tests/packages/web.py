"""A piece of web on the loopback: a proxy that is every site it is asked for, with a CA of its own.

The sites are folders of stand-in wheels. So the addresses in the version table are used as they
stand there, and nothing leaves this machine.
"""

from __future__ import annotations

import datetime
import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DEFAULT = "default.invalid"  # stands for the index that everybody has


@dataclass
class Web:
    """`seen`: (site, path) of every request, whether or not there was an answer."""

    folder: Path
    url: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)

    def shelf(self, url: str) -> Path:
        """The folder in which the wheels of a page or an index lie."""
        place = urlsplit(url)
        path = place.path.rpartition("/")[0] if place.path.endswith(".html") else place.path
        folder = self.folder / "sites" / str(place.hostname) / path.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def asked(self, project: str) -> set[str]:
        """The sites that were asked for a project by its name, or for one of its wheels."""
        names = {project, project.replace("-", "_")}
        return {
            site
            for site, path in self.seen
            if names & {part.partition("-")[0] for part in path.split("/")}
            or f"/{project}/" in path + "/"
        }

    def environ(self) -> dict[str, str]:
        ca = str(self.folder / "ca.pem")
        return {"HTTPS_PROXY": self.url, "https_proxy": self.url, "SSL_CERT_FILE": ca}


def page(shelf: Path, name: str = "index.html") -> None:
    """A page of links to every wheel in the folder."""
    links = (f'<a href="{p.name}">{p.name}</a><br>' for p in sorted(shelf.glob("*.whl")))
    (shelf / name).write_text("<!DOCTYPE html><html><body>" + "".join(links))


def index(shelf: Path) -> None:
    """A package index: a page of its own for every package."""
    for made in list(shelf.glob("*.whl")):
        name = made.name.partition("-")[0].replace("_", "-").lower()
        (shelf / name).mkdir(exist_ok=True)
        made.rename(shelf / name / made.name)
    for package in [p for p in shelf.iterdir() if p.is_dir()]:
        page(package)


@contextmanager
def web(folder: Path, sites: list[str]) -> Iterator[Web]:
    made = Web(folder)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificates(folder, sites))
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _proxy(made, tls))
    proxy.daemon_threads = True
    made.url = f"http://127.0.0.1:{proxy.server_port}"
    threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield made
    finally:
        proxy.shutdown()
        proxy.server_close()


def _proxy(made: Web, tls: ssl.SSLContext) -> type[http.server.BaseHTTPRequestHandler]:
    class Site(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *args: Any, site: str) -> None:
            self.site = site
            super().__init__(*args, directory=str(made.folder / "sites" / site))

        def parse_request(self) -> bool:
            good = super().parse_request()
            if good:
                made.seen.append((self.site, unquote(self.path)))
            return good

        def log_message(self, *_: object) -> None:
            pass

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            try:
                inner = tls.wrap_socket(self.connection, server_side=True)
                Site(inner, self.client_address, self.server, site=self.path.rpartition(":")[0])
            except OSError:
                pass  # the other side hung up

        def log_message(self, *_: object) -> None:
            pass

    return Proxy


def certificates(folder: Path, sites: list[str]) -> tuple[Path, Path]:
    """A CA, and one certificate for all the sites: (chain, key)."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "CA of a test")])
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sites of a test")])
    anyone = x509.BasicConstraints(ca=True, path_length=None)
    ca = _signed(ca_name, ca_key, ca_name, ca_key).add_extension(anyone, critical=True)
    names = x509.SubjectAlternativeName([x509.DNSName(site) for site in sites])
    leaf = _signed(name, key, ca_name, ca_key).add_extension(names, critical=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.sign(ca_key, hashes.SHA256()).public_bytes(pem))
    (folder / "sites.pem").write_bytes(leaf.sign(ca_key, hashes.SHA256()).public_bytes(pem))
    (folder / "sites.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "sites.pem", folder / "sites.key"


def _signed(name: Any, key: Any, issuer: Any, issuer_key: Any) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
    )
