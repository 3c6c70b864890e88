"""The certificates by which the hosts of one command know one another."""

from __future__ import annotations

import ssl
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ipexctl.blobs.peer_certificates import certificates
from ipexctl.remote.connection import peer_tls
from ipexctl.remote.connection.hub_link import Hub, Spoke
from tests.link.links import until

ROOT = Path(__file__).parents[2]
NAMES = ["a", "10.0.0.1", "fe80::1%eth0", "hôst", "x" * 64, "x" * 65, "y" * 300]


def loaded(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def test_each_host_has_a_key_of_its_own_and_all_have_one_ca() -> None:
    made = certificates("r1", NAMES)
    assert list(made) == NAMES
    assert {tuple(keys) for keys in made.values()} == {("ca", "cert", "key")}
    assert len({keys["ca"] for keys in made.values()}) == 1
    publics = set()
    for keys in made.values():
        key = serialization.load_pem_private_key(keys["key"].encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert key.curve.name == "secp256r1"
        assert loaded(keys["cert"]).public_key() == key.public_key()
        assert loaded(keys["ca"]).public_key() != key.public_key()
        loaded(keys["cert"]).verify_directly_issued_by(loaded(keys["ca"]))
        publics.add(key.public_key().public_numbers())
    assert len(publics) == len(NAMES)


def test_two_runs_have_different_cas() -> None:
    one, other = (certificates("same", ["a"])["a"] for _ in range(2))
    assert one["ca"] != other["ca"]


def test_no_clock_of_a_host_is_too_wrong() -> None:
    keys = certificates("r1", ["a"])["a"]
    for cert in loaded(keys["ca"]), loaded(keys["cert"]):
        assert cert.not_valid_before_utc == datetime(1970, 1, 1, tzinfo=timezone.utc)
        assert cert.not_valid_after_utc.year == 9999


def test_hosts_with_names_of_any_length_reach_one_another() -> None:
    """OpenSSL's strict rules are kept, too: newer Pythons turn them on."""
    made = certificates("r" * 100, NAMES)
    hub_name, *others = NAMES[::-1]
    taken: list[Any] = []
    hub = Hub(others, made[hub_name], lambda name, m: taken.append((name, m)))
    hub.context.verify_flags |= ssl.VERIFY_X509_STRICT
    port = hub.listen("127.0.0.1")
    spokes = [Spoke(name, hub_name, made[name], print) for name in others]
    try:
        for name, spoke in zip(others, spokes, strict=True):
            spoke.context.verify_flags |= ssl.VERIFY_X509_STRICT
            spoke.connect("127.0.0.1", port)
            spoke.send(name)
        assert until(lambda: len(taken) == len(others)), [spoke.trouble for spoke in spokes]
        assert sorted(taken) == sorted((name, name) for name in others)
    finally:
        for one in (*spokes, hub):
            one.close()


def test_the_hosts_side_computes_the_same_common_names() -> None:
    for name, keys in certificates("r1", NAMES).items():
        (field,) = loaded(keys["cert"]).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        assert field.value == peer_tls.common_name(name)


def test_a_certificate_cannot_issue_another() -> None:
    keys = certificates("r1", ["a"])["a"]
    constraints = loaded(keys["cert"]).extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca) == (True, False)
    ca = loaded(keys["ca"]).extensions.get_extension_for_class(x509.BasicConstraints)
    assert (ca.critical, ca.value.ca, ca.value.path_length) == (True, True, 0)


def test_importing_it_does_not_import_cryptography() -> None:
    text = "import sys, ipexctl.blobs.peer_certificates; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
