"""Names and passwords of indexes: who is told them, and who is not."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.blobs.blob_store import Store
from ipexctl.errors import InputError
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.packages.file_fetch import FetchFailed
from ipexctl.packages.http_opener import Logins, Pair
from ipexctl.packages.indexes import Indexes
from ipexctl.packages.resolver import intel_pins, resolve_stack
from ipexctl.packages.uv import Pin, Unresolved, Uv
from ipexctl.packages.wheel_fetch import Fetcher
from ipexctl.stack.lock_file import LockedPackage
from ipexctl.stack.selection import choose_stacks
from ipexctl.stack.version_table import Request
from tests.install.conftest import Shop, make_wheel
from tests.packages.served import Fault, Served, served
from tests.stack.test_stack import host
from tests.stack.test_table import AVX512

CONTENT = b"a wheel"
FILE = LockedPackage("a", "1", "a-1-py3-none-any.whl", hashlib.sha256(CONTENT).hexdigest())
STACK = choose_stacks([host("a", flags=AVX512)], Request(row="ipex-2.8.0"), stack_rows())[0]
SECRET = "hidden-from-the-others"
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


def fetch(server: Served, store: Path, *given: str) -> None:
    fetcher = Fetcher(Store(store), Indexes(extra=given), {"HOME": str(store)})
    fetcher.fetch([FILE], {FILE.sha256: file_of(server)}, lambda done, total: None)


def for_uv(tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
    home = {"HOME": str(tmp_path), "NETRC": "", "UV_CACHE_DIR": str(tmp_path / "cache")}
    return {**kept, **home, "UV_HTTP_RETRIES": "0"}


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
    urls = {FILE.sha256: with_login(file_of(server))}
    Fetcher(store, Indexes(), {}).fetch([FILE], urls, lambda done, total: None)
    assert (store.path(FILE.blob).read_bytes(), server.users) == (CONTENT, [ME])


TEAMS = ("https://a:1@h.example/team-a/simple", "https://b:2@h.example/team-b/simple")
PLAIN = "https://h.example/simple"
FILE_THERE = "https://h.example/files/x.whl"

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
    (("https://token@h.example/",), FILE_THERE, ("token", "")),
    (("https://a:1@h.example:port/",), FILE_THERE, None),
    (("https://a:1@[h.example/",), FILE_THERE, None),
]


@pytest.mark.parametrize(("given", "url", "pair"), ASKS)
def test_the_login_is_that_of_the_nearest_index(
    given: tuple[str, ...], url: str, pair: Pair | None
) -> None:
    assert Logins(Indexes(extra=given), {"NETRC": "/none"}).of(url) == pair


NETRC = "machine h.example login n password 4\nmachine g.example login m password 5\n"
# uv's variables; is there a .netrc? -> who asks for FILE_THERE
KNOWN: list[tuple[dict[str, str], str, Pair | None]] = [
    ({}, "", None),
    ({"UV_DEFAULT_INDEX": TEAMS[0]}, "", ("a", "1")),
    ({"UV_INDEX_URL": TEAMS[0]}, "", ("a", "1")),
    ({"UV_EXTRA_INDEX_URL": f"{PLAIN} {TEAMS[1]}"}, "", ("b", "2")),
    ({"UV_FIND_LINKS": f"/folder,{TEAMS[1]}"}, "", ("b", "2")),
    ({"UV_INDEX": f"ours={TEAMS[0]}"}, "", ("a", "1")),
    ({"UV_INDEX": PLAIN}, "netrc", ("n", "4")),
    ({"UV_INDEX": "https://n@h.example/simple"}, "netrc", ("n", "4")),
    ({"UV_INDEX": "https://a@h.example/simple"}, "netrc", ("a", "")),
    ({"UV_INDEX": TEAMS[0]}, "netrc", ("a", "1")),
]


@pytest.mark.parametrize(("variables", "file", "pair"), KNOWN)
def test_the_login_is_found_where_uv_finds_it(
    tmp_path: Path, variables: dict[str, str], file: str, pair: Pair | None
) -> None:
    (tmp_path / "netrc").write_text(NETRC)
    logins = Logins(Indexes(), {**variables, "NETRC": str(tmp_path / (file or "none"))})
    assert logins.of(FILE_THERE) == pair
    assert logins.of("https://g.example/files/x.whl") == (("m", "5") if file else None)


@pytest.mark.parametrize("how", ["UV_DEFAULT_INDEX", "netrc"])
def test_an_index_that_wants_a_login_serves_those_who_have_it(shop: Shop, how: str) -> None:
    with served(shop.wheels) as index:
        index.wanted = ME
        url = with_login(index.index) if how == "UV_DEFAULT_INDEX" else index.index
        if how == "netrc":
            (shop.folder / ".netrc").write_text("machine 127.0.0.1 login me password p@ss")
        environ = {
            "PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "HOME": str(shop.folder), "NETRC": "",
            "UV_CACHE_DIR": f"{shop.folder}/uv", "UV_HTTP_RETRIES": "0", "UV_DEFAULT_INDEX": url,
        }  # fmt: skip
        outcome = shop.install(**environ)
    assert (outcome.code, outcome.states) == (0, ["changed"]), outcome.err


def test_who_has_no_login_is_told_where_it_belongs(server: Served, tmp_path: Path) -> None:
    server.wanted = ME
    with pytest.raises(FetchFailed) as at_the_file:
        fetch(server, tmp_path / "store")
    row = replace(STACK.row, torch_index=server.index, links="", ipex="", flat=())
    with pytest.raises(InputError) as at_the_index:
        resolve_stack([replace(STACK, row=row)], Indexes(server.index), for_uv(tmp_path))
    line = (
        "machine {} login USER password PASSWORD   # a line for ~/.netrc; or put them into "
        "PIP_INDEX_URL"
    )
    assert at_the_file.value.why == "HTTP 401 Unauthorized"
    assert at_the_file.value.hint == line.format("127.0.0.1")
    assert f"({server.index})" in at_the_index.value.why
    assert "401 Unauthorized" in at_the_index.value.why and ".netrc" in at_the_index.value.hint


# --- what uv is told, and what the user ----------------------------------------------------------


def resolving() -> Iterator[tuple[bytes, int]]:
    """Each uv that this process has started: what everybody here can see of it, and the mode of
    its folder."""
    for told in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it has ended
            command = (told.parent / "cmdline").read_bytes()
            if f"\nPPid:\t{os.getpid()}\n" in told.read_text() and b"\0compile\0" in command:
                yield command, (told.parent / "cwd").stat().st_mode & 0o777


def test_uv_has_logins_where_only_this_user_can_read_them(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "a", "1", {})
    seen: list[tuple[bytes, int]] = []
    with served(wheels) as index:
        index.at_ask = lambda: seen.extend(resolving())
        mine = index.index.replace("://", f"://me:{SECRET}@")
        uv = Uv(STACK, Indexes(mine, (mine,), (f"{mine}a/",)), for_uv(tmp_path))
        found = uv.compile(("a",), {"a": Pin(mine)})
        assert [f.package.version for f in found] == ["1"]
    assert {(SECRET.encode() in command, mode) for command, mode in seen} == {(False, 0o700)}
    said = {"Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()}
    assert set(index.users) - {""} == said


def test_what_cannot_be_had_is_told_without_the_login(tmp_path: Path) -> None:
    page = f"http://me:{SECRET}@127.0.0.1:1/wheels"
    with pytest.raises(Unresolved) as told:
        intel_pins(Uv(STACK, Indexes(find_links=(page,)), for_uv(tmp_path)), {STACK.row.links})
    assert "http://127.0.0.1:1/wheels" in str(told.value)
    assert SECRET not in str(told.value)
