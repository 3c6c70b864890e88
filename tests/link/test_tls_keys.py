"""The key by which the hosts of one command recognize each other."""

from __future__ import annotations

import ssl
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from ipexctl.blobs.tls_keys import make_keys
from ipexctl.common.waiting import wait_until
from ipexctl.remote.connection.hub_link import HubListener, Spoke

ROOT = Path(__file__).parents[2]
NAMES = ["a", "10.0.0.1", "fe80::1%eth0", "hôst", "x" * 64, "y" * 300]


def test_each_command_has_a_key_of_its_own() -> None:
    one, other = make_keys(), make_keys()
    assert set(one) == set(other) == {"cert", "key"}
    assert (one["cert"] != other["cert"]) and (one["key"] != other["key"])
    cert = x509.load_pem_x509_certificate(one["cert"].encode())
    key = serialization.load_pem_private_key(one["key"].encode(), None)
    assert cert.public_key() == key.public_key()


def test_no_clock_of_a_host_is_too_wrong() -> None:
    cert = x509.load_pem_x509_certificate(make_keys()["cert"].encode())
    assert cert.not_valid_before_utc == datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert cert.not_valid_after_utc.year == 9999


def test_hosts_with_names_of_any_length_reach_one_another() -> None:
    """OpenSSL's strict rules are kept, too: newer Pythons turn them on."""
    keys, (hub_name, *others) = make_keys(), NAMES[::-1]
    taken: list[Any] = []
    hub = HubListener(others, keys, lambda name, m: taken.append((name, m)))
    hub.context.verify_flags |= ssl.VERIFY_X509_STRICT
    port = hub.listen("127.0.0.1")
    spokes = [Spoke(name, hub_name, keys, print) for name in others]
    try:
        for name, spoke in zip(others, spokes, strict=True):
            spoke.context.verify_flags |= ssl.VERIFY_X509_STRICT
            spoke.connect("127.0.0.1", port)
            spoke.send(name)
        assert wait_until(lambda: len(taken) == len(others))
        assert sorted(taken) == sorted((name, name) for name in others)
    finally:
        for one in (*spokes, hub):
            one.close()


def test_importing_it_does_not_import_cryptography() -> None:
    text = "import sys, ipexctl.blobs.tls_keys; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
