"""Names and passwords of indexes: who is told them, and who is not."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ipexctl.core.lock import Package
from ipexctl.core.rows import Request
from ipexctl.core.stack import choose
from ipexctl.hosts.fetch import Fetcher
from ipexctl.hosts.indexes import Indexes
from ipexctl.hosts.logins import Logins, Pair
from ipexctl.hosts.pins import Pin
from ipexctl.hosts.resolver import intel_pins
from ipexctl.hosts.store import Store
from ipexctl.hosts.uv import Unresolved, Uv
from ipexctl.verbs.versions import table
from tests.install.conftest import make_wheel
from tests.install.served import Fault, Served, served
from tests.test_stack import host
from tests.test_table import AVX512

CONTENT = b"a wheel"
FILE = Package("a", "1", "a-1-py3-none-any.whl", hashlib.sha256(CONTENT).hexdigest())
ME = "Basic " + base64.b64encode(b"me:p@ss").decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / FILE.file).write_bytes(CONTENT)
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[Served]:
    with served(folder) as told:
        yield told


def with_login(url: str) -> str:
    return url.replace("://", "://me:p%40ss@")


def fetch(server: Served, store: Path, *given: str, environ: dict[str, str] | None = None) -> None:
    nobody = {"HOME": str(store), "NETRC": str(store / "none")}
    fetcher = Fetcher(Store(store), Indexes(extra=given), {**nobody, **(environ or {})})
    fetcher.fetch([FILE], {FILE.sha256: file_of(server)}, lambda n: None)


def file_of(server: Served) -> str:
    return f"{server.url}/files/{FILE.file}"


def test_a_login_goes_to_its_own_site_and_no_other(server: Served, tmp_path: Path) -> None:
    other_port = with_login("http://127.0.0.1:1/simple")
    other_scheme = with_login(server.index).replace("http:", "https:")
    fetch(server, tmp_path / "a", with_login(server.index))
    fetch(server, tmp_path / "b", "http://me:p%40ss@other.invalid/simple", other_port, other_scheme)
    assert server.users == [ME, ""]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_login_does_not_go_along_to_another_site_that_the_index_points_to(
    server: Served, folder: Path, tmp_path: Path, status: int
) -> None:
    with served(folder, "127.0.0.2") as other:
        server.faults[FILE.file] = Fault("status", status, to=file_of(other))
        fetch(server, tmp_path / "store", with_login(server.index))
        assert (server.users, other.users) == ([ME], [""])


def test_a_login_does_go_along_within_its_site(server: Served, tmp_path: Path) -> None:
    server.faults[FILE.file] = Fault("status", 302, to=f"/moved/files/{FILE.file}")
    fetch(server, tmp_path / "store", with_login(server.index))
    assert server.users == [ME, ME]


def test_an_address_with_a_login_is_asked_for_without_it(server: Served, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    blob = Fetcher(store, Indexes(), {}).add(FILE.file, with_login(file_of(server)))
    assert (store.path(blob).read_bytes(), server.users) == (CONTENT, [ME])


TEAMS = ("https://a:1@h.example/team-a/simple", "https://b:2@h.example/team-b/simple")

# the indexes, an address -> who asks for it
ASKS: list[tuple[tuple[str, ...], str, Pair | None]] = [
    (TEAMS, "https://h.example/team-a/files/x.whl", ("a", "1")),
    (TEAMS, "https://h.example/team-b/files/x.whl", ("b", "2")),
    (TEAMS, "https://h.example:443/team-b/files/x.whl", ("b", "2")),
    (TEAMS, "https://h.example/files/x.whl", ("a", "1")),
    (TEAMS, "http://h.example:443/team-a/files/x.whl", None),
    (TEAMS, "https://h.example:8443/team-a/files/x.whl", None),
    (TEAMS, "https://h.example.org/team-a/files/x.whl", None),
    (TEAMS, "https://c:3@h.example/team-a/files/x.whl", ("c", "3")),
    (("https://token@h.example/",), "https://h.example/x.whl", ("token", "")),
    (("https://a:1@h.example:port/",), "https://h.example/x.whl", None),
]


@pytest.mark.parametrize(("given", "url", "pair"), ASKS)
def test_the_login_is_that_of_the_nearest_index(
    given: tuple[str, ...], url: str, pair: Pair | None
) -> None:
    assert Logins(Indexes(extra=given), {"NETRC": "/none"}).of(url) == pair


# --- what uv is told, and what the user ----------------------------------------------------------

STACK = choose([host("a", flags=AVX512)], Request(row="ipex-2.8.0"), table())[0]
SECRET = "hidden-from-the-others"


def children() -> Iterator[Path]:
    """The processes of this one, as everybody on this machine can see them."""
    for told in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            if f"\nPPid:\t{os.getpid()}\n" in told.read_text():
                yield told.parent


def uv_with(indexes: Indexes, tmp_path: Path) -> Uv:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
    cache = {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_HTTP_RETRIES": "0"}
    return Uv(STACK, indexes, {**kept, **cache})


def test_uv_has_logins_where_only_this_user_can_read_them(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "a", "1", {})
    seen: list[tuple[bool, int]] = []

    def look() -> None:
        for process in children():
            with suppress(FileNotFoundError):  # it has ended
                secret = SECRET.encode() in (process / "cmdline").read_bytes()
                seen.append((secret, (process / "cwd").stat().st_mode & 0o777))

    with served(wheels) as index:
        index.at_ask = look
        mine = index.index.replace("://", f"://me:{SECRET}@")
        uv = uv_with(Indexes(mine, (mine,), (f"{mine}a/",)), tmp_path)
        found = uv.compile(("a",), {"a": Pin(mine)})
        assert [f.package.version for f in found] == ["1"]
    assert set(seen) == {(False, 0o700)}
    said = {"Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()}
    assert set(index.users) - {""} == said


def test_what_cannot_be_had_is_told_without_the_login(tmp_path: Path) -> None:
    page = f"http://me:{SECRET}@127.0.0.1:1/wheels"
    with pytest.raises(Unresolved) as told:
        intel_pins(uv_with(Indexes(find_links=(page,)), tmp_path), [STACK.row.links])
    assert "http://127.0.0.1:1/wheels" in str(told.value)
    assert SECRET not in str(told.value)
