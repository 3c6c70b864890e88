"""Indexes over TLS: whose certificate is a good one, and who says so."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.blobs.blob_store import Store
from ipexctl.errors import InputError
from ipexctl.packages.file_fetch import FetchFailed
from ipexctl.packages.indexes import CERT_HINT, Indexes, merge_indexes
from ipexctl.packages.resolver import resolve_stack
from ipexctl.packages.wheel_fetch import Fetcher
from ipexctl.stack.lock_file import LockedPackage
from tests.install.conftest import Outcome, Shop
from tests.packages.served import Fault, Served, served
from tests.packages.test_logins import STACK, for_uv
from tests.packages.web import certificates

CONTENT = b"a wheel"
FILE = LockedPackage("a", "1", "a-1-py3-none-any.whl", hashlib.sha256(CONTENT).hexdigest())
HERE = "127.0.0.1"  # for which the certificate is not
NAMED = "localhost"


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*certificates(tmp_path, [NAMED]))
    (tmp_path / FILE.file).write_bytes(CONTENT)
    return made


def fetch(index: Served, folder: Path, indexes: Indexes, host: str = HERE) -> bytes:
    store = Store(folder / "store")
    url = f"{index.url.replace(HERE, host)}/files/{FILE.file}"
    fetcher = Fetcher(store, indexes, {"HOME": str(folder)})
    fetcher.fetch([FILE], {FILE.sha256: url}, lambda done, total: None)
    return store.path(FILE.blob).read_bytes()


def test_a_certificate_is_good_by_its_ca_or_by_the_users_word(
    tls: ssl.SSLContext, tmp_path: Path
) -> None:
    cert = str(tmp_path / "ca.pem")
    with served(tmp_path, tls=tls) as index:
        port = index.url.rpartition(":")[2]
        for n, (indexes, host) in enumerate([
            (Indexes(cert=cert), NAMED),
            (Indexes(trusted=(HERE,)), HERE),
            (Indexes(trusted=("other.invalid", f"{HERE}:{port}")), HERE),
            (Indexes(trusted=("*",)), HERE),
        ]):  # fmt: skip
            assert fetch(index, tmp_path / str(n), indexes, host) == CONTENT


# whom the user trusts, the site -> what is wrong with its certificate
NOT_GOOD = [
    ((), NAMED, "unable to get local issuer certificate"),
    ((NAMED,), HERE, "unable to get local issuer certificate"),
    ((f"{HERE}:1", f"http://{HERE}", f"{HERE}:port"), HERE, "unable to get local issuer"),
]


@pytest.mark.parametrize(("trusted", "host", "words"), NOT_GOOD)
def test_another_certificate_is_refused_at_once_with_what_would_help(
    tls: ssl.SSLContext, tmp_path: Path, trusted: tuple[str, ...], host: str, words: str
) -> None:
    with served(tmp_path, tls=tls) as index, pytest.raises(FetchFailed) as told:
        fetch(index, tmp_path, Indexes(trusted=trusted), host)
    assert f" {host} " in told.value.why and words in told.value.why
    assert told.value.hint == CERT_HINT.format(host)
    assert index.seen == []


def test_who_resolves_is_told_what_would_help_too(tls: ssl.SSLContext, tmp_path: Path) -> None:
    with served(tmp_path, tls=tls) as index:
        row = replace(STACK.row, torch_index=index.index, links="", ipex="", flat=())
        with pytest.raises(InputError) as told:
            resolve_stack([replace(STACK, row=row)], Indexes(index.index), for_uv(tmp_path))
    assert "certificate" in told.value.why and "PIP_CERT" in told.value.hint


def test_a_site_that_is_trusted_cannot_vouch_for_another_one(
    tls: ssl.SSLContext, tmp_path: Path
) -> None:
    with served(tmp_path, tls=tls) as index, served(tmp_path, tls=tls) as other:
        to = f"{other.url.replace(HERE, NAMED)}/files/{FILE.file}"
        index.faults[FILE.file] = Fault("status", 302, to=to)
        with pytest.raises(FetchFailed, match=FILE.file) as told:
            fetch(index, tmp_path, Indexes(trusted=(HERE,)))
        assert told.value.hint.endswith(f"PIP_TRUSTED_HOST={NAMED}")
        assert (len(index.seen), other.seen) == (1, [])


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    for name in ("none.pem", "empty.pem"):
        (tmp_path / "empty.pem").touch()
        with pytest.raises(InputError, match=name) as refused:
            Fetcher(Store(tmp_path), Indexes(cert=str(tmp_path / name)), {})
        assert refused.value.slug == "ca-unreadable"


def test_what_uv_was_told_to_trust_replaces_pips_word() -> None:
    pip = Indexes(trusted=("a.invalid",))
    told = {"UV_INSECURE_HOST": "b.invalid c.invalid:8443"}
    assert merge_indexes(Indexes(), pip, {}).trusted == ("a.invalid",)
    assert merge_indexes(Indexes(), pip, told).trusted == ("b.invalid", "c.invalid:8443")


def install(shop: Shop, index: Served) -> Outcome:
    environ = {
        "PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": index.index,
        "PIP_TRUSTED_HOST": HERE, "UV_CACHE_DIR": f"{shop.folder}/uv", "UV_HTTP_RETRIES": "0",
    }  # fmt: skip
    return shop.install(**environ)


def test_a_trusted_host_serves_this_machine(shop: Shop, tls: ssl.SSLContext) -> None:
    with served(shop.wheels, tls=tls) as index:
        done = install(shop, index)
        assert (done.code, done.states) == (0, ["changed"]), done.err
