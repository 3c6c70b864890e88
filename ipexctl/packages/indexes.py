"""The sources of packages: options, pip's environment and files, translated for uv.

uv reads its own configuration (UV_*, uv.toml) itself, but not pip's. Settings for uv win.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass

LOGIN_HINT = (
    "machine {} login USER password PASSWORD   # a line for ~/.netrc; or put them into "
    "PIP_INDEX_URL"
)
CERT_HINT = "PIP_CERT=FILE   # the certificate of {0}'s CA; or PIP_TRUSTED_HOST={0}"
_VARIABLES = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
)
_SECTIONS = ("global", "install")
_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True)
class Indexes:
    """Options of the command line, or pip's configuration. "" and () mean: not set."""

    index_url: str = ""
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    cert: str = ""
    trusted: tuple[str, ...] = ()
    no_index: bool = False

    def arguments(self) -> tuple[str, ...]:
        """Return arguments for `uv pip compile` without addresses: all local users can see them."""
        hosts = (word for host in self.trusted for word in ("--allow-insecure-host", host))
        return (*(["--no-index"] if self.no_index else []), *hosts)

    def environ(self) -> dict[str, str]:
        """Return the variables with addresses for uv. Missing folders are left out, as by pip."""
        variables = {"UV_FIND_LINKS": ",".join(filter(_place_exists, self.find_links))}
        if not self.no_index:
            variables["UV_DEFAULT_INDEX"] = self.index_url
            variables["UV_INDEX"] = " ".join(filter(_place_exists, self.extra))
        return {name: value for name, value in variables.items() if value}

    def is_trusted(self, url: str) -> bool:
        """Decide whether the site's certificate need not be valid."""
        return any(host == "*" or _is_at(url, host) for host in self.trusted)


def plain_index_url(url: str) -> str:
    """Return the address without the parts that do not identify the index."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def in_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the addresses in uv's variables; uv accepts NAME=URL, too."""
    for variable in _VARIABLES:
        for word in environ.get(variable, "").replace(",", " ").split():
            name, equals, url = word.partition("=")
            yield url if equals and ":" not in name else word


def _is_at(url: str, host: str) -> bool:
    """Decide whether the url is at `host`; a port or a scheme in `host` has to match as well."""
    with suppress(ValueError):
        site, pattern = urlsplit(url), urlsplit(host if "://" in host else f"//{host}")
        return (
            site.hostname == pattern.hostname
            and pattern.scheme in ("", site.scheme)
            and pattern.port in (None, site.port or 443)
        )
    return False


def from_pip(environ: Mapping[str, str]) -> Indexes:
    """Read pip's settings: later files replace earlier ones, the environment replaces all."""
    settings: dict[str, str] = {}
    for path in _pip_files(environ):
        settings.update(_read_pip_file(path))
    for name in ("index-url", "extra-index-url", "find-links", "cert", "trusted-host", "no-index"):
        if value := environ.get("PIP_" + name.upper().replace("-", "_")):
            settings[name] = value
    return Indexes(
        index_url=settings.get("index-url", ""),
        extra=tuple(settings.get("extra-index-url", "").split()),
        find_links=tuple(settings.get("find-links", "").split()),
        cert=settings.get("cert", ""),
        trusted=tuple(settings.get("trusted-host", "").split()),
        no_index=settings.get("no-index", "").lower() in _TRUE,
    )


def merge_indexes(options: Indexes, pip: Indexes, environ: Mapping[str, str]) -> Indexes:
    """Put options first; then what the user configured for uv, which hides pip's settings."""

    insecure = environ.get("UV_INSECURE_HOST", "").split()

    def uv_knows(*names: str) -> bool:
        return any(environ.get(name) for name in names)

    index_known = uv_knows("UV_DEFAULT_INDEX", "UV_INDEX_URL")
    extra_known = uv_knows("UV_INDEX", "UV_EXTRA_INDEX_URL")
    links_known = uv_knows("UV_FIND_LINKS")
    return Indexes(
        index_url=options.index_url or ("" if index_known else pip.index_url),
        extra=options.extra + (() if extra_known else pip.extra),
        find_links=tuple(
            absolute_place(p) for p in options.find_links + (() if links_known else pip.find_links)
        ),
        cert=options.cert or pip.cert,
        trusted=tuple(insecure) or pip.trusted,
        no_index=pip.no_index and not options.index_url,
    )


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    config_file = environ.get("PIP_CONFIG_FILE", "")
    if config_file == os.devnull:
        return
    home = Path(environ.get("HOME") or Path.home())
    for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    yield home / ".pip" / "pip.conf"
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if config_file:
        yield Path(config_file)


def _read_pip_file(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text("utf-8"), str(path))
    except OSError:
        return {}
    except (configparser.Error, UnicodeDecodeError) as e:
        raise InputError(
            f"pip's configuration {path} is invalid",
            why=str(e),
            hint="correct the file; or PIP_CONFIG_FILE=/dev/null to ignore it",
            slug="pip-config-invalid",
        ) from None
    settings: dict[str, str] = {}
    for section in _SECTIONS:
        if parser.has_section(section):
            settings.update(
                (name.replace("_", "-"), value) for name, value in parser.items(section) if value
            )
    return settings


def _place_exists(place: str) -> bool:
    """Decide whether it exists; only local folders are checked, the rest is left to uv."""
    url = urlsplit(place)
    if url.scheme == "file":
        return Path(url2pathname(url.path)).is_dir()
    return bool(url.scheme) or Path(place).is_dir()


def absolute_place(place: str) -> str:
    return place if "://" in place else str(expand_user(place).absolute())


def expand_user(place: str) -> Path:
    """Expand ~ in a path; Path's own method raises for unknown users."""
    return Path(os.path.expanduser(place))  # noqa: PTH111
