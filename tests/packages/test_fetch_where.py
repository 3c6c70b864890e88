"""`--fetch`: this machine, each host, or one host for all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_carriers import SAMPLE, Fetching, Moved, Push, download_from_host, samples
from ipexctl.blobs.blob_store import Store
from ipexctl.errors import HostFailed
from ipexctl.install.stack.fetch_policy import Fetch, decide, seconds
from ipexctl.lab import Lab, LabSpec
from ipexctl.machines.agent import Agent
from ipexctl.packages.index_logins import Logins
from ipexctl.packages.indexes import Indexes
from tests.conftest import MakeLab
from tests.install.conftest import Outcome, Shop, finish
from tests.install.over_ssh import start, stock
from tests.packages.served import Fault, Served, served

CONTENT = os.urandom(1 << 20) * 5
BLOB = Blob("a-1-py3-none-any.whl", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
CUT = 1 << 20


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Served]:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / BLOB.name).write_bytes(CONTENT)
    with served(folder) as told:
        yield told


def bring(agent: Agent, index: Served, root: Path, blob: Blob | None = None) -> tuple[Moved, int]:
    """What travelled, and what the host said was there at the end."""
    told = [0]
    carrier = Fetching(
        {BLOB.sha256: f"{index.url}/files/{BLOB.name}"}, Push(lambda blob, offset, size: b"")
    )
    tell = lambda text, done, total: told.append(done)  # noqa: E731
    moved = carrier.bring(agent, str(root), [blob or BLOB], tell)
    return moved, told[-1]


def kept(root: Path) -> dict[str, bytes]:
    blobs = (p for p in (root / "blobs").rglob("*") if p.is_file())
    return {str(p.relative_to(root)): p.read_bytes() for p in blobs}


WHOLE = {f"blobs/sha256/{BLOB.sha256[:2]}/{BLOB.sha256}": CONTENT}

# what goes wrong, whether the server can go on from the middle -> the requests, extra bytes
HEALED = [
    (Fault(""), True, [""], 0),
    (Fault("cut", CUT), True, ["", f"bytes={CUT}-"], 0),
    (Fault("cut", CUT), False, ["", f"bytes={CUT}-"], CUT),
    (Fault("status", 503), True, ["", ""], 0),
]


@pytest.mark.parametrize(("fault", "ranges", "requests", "more"), HEALED)
def test_a_host_fetches_a_file_and_goes_on_where_it_stopped(
    agent: Agent, index: Served, tmp_path: Path, fault: Fault, ranges: bool, requests: list[str],
    more: int,
) -> None:  # fmt: skip
    index.faults[BLOB.name], index.ranges = fault, ranges
    root = tmp_path / "root"
    assert bring(agent, index, root) == (Moved(0, len(CONTENT) + more), len(CONTENT))
    assert (kept(root), index.asked(BLOB.name)) == (WHOLE, requests)
    assert bring(agent, index, root) == (Moved(), 0)
    assert index.asked(BLOB.name) == requests


# what an earlier try had left -> the requests, and the bytes that came
LEFT = [
    (CONTENT[:CUT], [f"bytes={CUT}-"], len(CONTENT) - CUT),
    (CONTENT, [f"bytes={len(CONTENT)}-"], 0),
    (b"?" * CUT, [f"bytes={CUT}-", ""], 2 * len(CONTENT) - CUT),
]


@pytest.mark.parametrize(("left", "requests", "came"), LEFT, ids=["part", "all", "wrong"])
def test_what_an_earlier_try_left_on_a_host_is_not_fetched_again_if_it_is_right(
    agent: Agent, index: Served, tmp_path: Path, left: bytes, requests: list[str], came: int
) -> None:
    root = tmp_path / "root"
    (root / "blobs" / "parts").mkdir(parents=True, mode=0o700)
    root.chmod(0o700)
    (root / "blobs" / "parts" / f"{BLOB.sha256}.part").write_bytes(left)
    assert bring(agent, index, root) == (Moved(0, came), len(CONTENT))
    assert (kept(root), index.asked(BLOB.name)) == (WHOLE, requests)


# every answer's fault -> what the user is told, and what is kept
REFUSED = [
    (
        Fault("other"),
        "127.0.0.1 sent another file for a-1",
        "run the same command",
        [],
    ),
    (
        Fault("status", 401, 9),
        "127.0.0.1 did not send a-1",
        "--fetch controller   # logins",
        [b""],
    ),
    (Fault("status", 404, 9), "127.0.0.1 did not send a-1", "rm -f ipexctl.lock", [b""]),
]


@pytest.mark.parametrize(("fault", "what", "hint", "left"), REFUSED)
def test_a_host_says_what_an_index_did_and_what_to_do(
    agent: Agent, index: Served, tmp_path: Path, fault: Fault, what: str, hint: str,
    left: list[bytes],
) -> None:  # fmt: skip
    index.faults[BLOB.name] = fault
    with pytest.raises(HostFailed) as told:
        bring(agent, index, tmp_path / "root")
    assert told.value.what.startswith(f"here: {what}")
    assert told.value.hint.startswith(hint)
    assert list(kept(tmp_path / "root").values()) == left


def test_a_host_without_a_way_to_the_index_is_named_with_what_helps(
    agent: Agent, index: Served, tmp_path: Path
) -> None:
    index.url = "http://127.0.0.1:1"
    with pytest.raises(HostFailed) as told:
        bring(agent, index, tmp_path / "root")
    assert (told.value.what, told.value.why, told.value.hint) == (
        "here: cannot reach 127.0.0.1",
        "Connection refused",
        "--fetch controller   # then only the machine you work on needs access to the index",
    )


HOSTILE = [
    ("a" * 64, "file:///etc/passwd", "cannot download from this URL"),
    ("a" * 64, "ftp://127.0.0.1/a", "cannot download from this URL"),
    ("a" * 64, "http://u:p@127.0.0.1/a", "cannot download from this URL"),
    ("../../a", "http://127.0.0.1:1/a", "is not a sha256"),
]


@pytest.mark.parametrize(("sha256", "address", "message"), HOSTILE)
def test_the_agent_refuses_to_fetch_what_is_no_file_of_an_index(
    agent: Agent, tmp_path: Path, sha256: str, address: str, message: str
) -> None:
    asked = {"root": str(tmp_path / "root"), "files": [["a.whl", sha256, 1, address]]}
    with pytest.raises(HostFailed, match=message):
        agent.call("blobs.blob_download.fetch", asked)


def test_a_host_without_room_asks_the_index_for_nothing(
    agent: Agent, index: Served, tmp_path: Path
) -> None:
    with pytest.raises(HostFailed) as refused:
        bring(agent, index, tmp_path / "root", replace(BLOB, size=1 << 60))
    assert refused.value.slug == "no-space"
    assert index.asked(BLOB.name) == []


def test_what_a_host_has_is_drawn_from_it_on_from_what_is_here(
    agent: Agent, index: Served, tmp_path: Path
) -> None:
    bring(agent, index, tmp_path / "root")
    store = Store(tmp_path / "store")
    (store.folder / "parts").mkdir(parents=True)
    (store.folder / "parts" / f"{BLOB.sha256}.download").write_bytes(CONTENT[:CUT])
    came = download_from_host(agent, str(tmp_path / "root"), BLOB, store, lambda n: None)
    assert (came, store.path(BLOB).read_bytes() == CONTENT) == (len(CONTENT) - CUT, True)


def test_a_sample_is_the_beginning_of_a_file_or_nothing(agent: Agent, index: Served) -> None:
    reached = f"{index.url}/files/{BLOB.name}"
    found = samples(agent, [reached, "http://127.0.0.1:1/files/a"])
    assert [came for came, _ in found] == [SAMPLE, 0]
    assert index.asked(BLOB.name) == [f"bytes=0-{SAMPLE - 1}"]


# how long it takes here, and on hosts; None: not reached
DECIDED = [
    (5.0, {"a": 1.0}, Fetch.CONTROLLER, ""),  # quick enough
    (600.0, {"a": 20.0, "b": 50.0}, Fetch.EACH, ""),
    (600.0, {"a": 20.0, "b": 300.0}, Fetch.CONTROLLER, ""),  # not much better for all
    (600.0, {"a": 20.0, "b": None}, Fetch.CONTROLLER, ""),  # not for all
    (600.0, {"a": None}, Fetch.CONTROLLER, ""),
    (None, {"a": None, "b": 900.0}, Fetch.NODE0, "b"),
    (None, {"a": None}, Fetch.CONTROLLER, ""),  # its own words for it follow
]


@pytest.mark.parametrize(("here", "hosts", "fetch", "host"), DECIDED)
def test_auto_takes_this_machine_unless_hosts_alone_reach_the_index_or_are_much_faster(
    here: float | None, hosts: dict[str, float | None], fetch: Fetch, host: str
) -> None:
    decision = decide(here, hosts, ["files.example"])
    assert (decision.fetch, decision.host, bool(decision.because)) == (fetch, host, True)


def test_a_time_is_made_of_the_pace_of_every_site_and_none_may_be_silent() -> None:
    assert seconds([100, 30], [(10, 1.0), (3, 2.0)]) == 30.0
    assert seconds([100, 30], [(10, 1.0), (0, 5.0)]) is None


# what is configured, an address -> does somebody there want a login?
INDEX = "https://u:secret@pkgs.example/simple"
WANTED = [
    ({}, Indexes(), "https://pkgs.example/a.whl", False),
    ({}, Indexes(index_url=INDEX), "https://pkgs.example/a.whl", True),
    ({}, Indexes(index_url=INDEX), "https://other.example/a.whl", False),
    ({}, Indexes(extra=(INDEX,)), "https://pkgs.example/a.whl", True),
    ({"UV_INDEX": f"mine={INDEX}"}, Indexes(), "https://pkgs.example/a.whl", True),
    ({"UV_FIND_LINKS": f"/x,{INDEX}"}, Indexes(), "https://pkgs.example/a.whl", True),
    ({"UV_INDEX_MINE_PASSWORD": "secret"}, Indexes(), "https://other.example/a.whl", True),
    ({"NETRC": "with"}, Indexes(), "https://known.example/a.whl", True),
    ({"NETRC": "with"}, Indexes(), "https://other.example/a.whl", False),
    ({}, Indexes(), "https://pkgs.example/a.whl?key=secret", True),
    ({}, Indexes(), "https://u@pkgs.example/a.whl", True),
]


@pytest.mark.parametrize(("environ", "indexes", "url", "wanted"), WANTED)
def test_a_site_that_may_want_a_login_is_known(
    tmp_path: Path, environ: dict[str, str], indexes: Indexes, url: str, wanted: bool
) -> None:
    (tmp_path / "with").write_text("machine known.example login u password secret\n")
    (tmp_path / "with").chmod(0o600)
    netrc = str(tmp_path / environ.get("NETRC", "without"))
    assert Logins(indexes, {**environ, "NETRC": netrc}).wants(url) is wanted


def test_files_that_only_this_machine_can_get_at_are_refused_to_hosts(shop: Shop) -> None:
    outcome = shop.install("--fetch", "each")  # they are in a folder here
    assert (outcome.code, outcome.slug, shop.current) == (2, "hosts-cannot-fetch", "")
    assert "--fetch each" in outcome.err and "folder" in outcome.err


# --- three ways to two hosts ---------------------------------------------------------------------


def from_index(shop: Shop, lab: Lab, index: Served, fetch: str, *more: str) -> Outcome:
    """With a store and a root for each way, so that there is nothing when it is first taken."""
    environ = {
        "PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "UV_CACHE_DIR": f"{shop.folder}/uv",
        "XDG_CACHE_HOME": f"{shop.folder}/cache-{fetch}",
    }  # fmt: skip
    options = ("--fetch", fetch, "--root", f"~/{fetch}", "--index-url", index.index)
    return finish(start(shop, lab, *options, *more, environ=environ))


@pytest.mark.lab
def test_each_file_is_asked_for_once_by_each_host_or_once_by_one_for_all(
    full_rung, shop: Shop, make_lab: MakeLab
) -> None:
    stock(shop)
    lab = make_lab(LabSpec.plain(2, name="fetchwhere"))
    address = lab.hosts["node01"].address.rsplit(".", 1)[0] + ".1"
    wheels = sorted(p.name for p in shop.wheels.iterdir())
    total = sum(p.stat().st_size for p in shop.wheels.iterdir())
    with served(shop.wheels, address) as index:
        index.only_heads.add(address)  # only hosts may fetch
        outcome = from_index(shop, lab, index, "each")
        assert (outcome.code, outcome.states) == (0, ["changed"] * 2), outcome.err
        assert moved(outcome) == ("each", 2 * total, 0, 0)
        assert whole(index, wheels) == sorted(2 * wheels)

        index.seen.clear()
        outcome = from_index(shop, lab, index, "each", "--rebuild", "-l", "node01")
        assert (outcome.code, outcome.states) == (0, ["changed"]), outcome.err
        assert (index.seen, outcome.document["fetch"]) == ([], None)
        outcome = from_index(shop, lab, index, "auto")
        assert (outcome.code, outcome.states) == (0, ["changed"] * 2), outcome.err
        assert moved(outcome) == ("node0", total + 2 * SAMPLE, total, total)
        assert whole(index, wheels) == wheels


def moved(outcome: Outcome) -> tuple[str, int, int, int]:
    """Who fetched, and the bytes from the index, to hosts, from a host."""
    names = ("fetch", "bytes_fetched", "bytes_sent", "bytes_from_hosts")
    who, fetched, sent, drawn = (outcome.document[name] for name in names)
    return who, fetched, sent, drawn


def whole(index: Served, wheels: list[str]) -> list[str]:
    """The wheels that were asked for from their first byte to their last."""
    return sorted(n for n in wheels for asked in index.asked(n) if not asked)
