"""Host certificates: whom an authority's signature lets us believe, and whom not."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import replace

import pytest

from ipexctl.errors import HostKeyChanged, HostKeyUnknown
from ipexctl.machines.openssh.host_certificates import parse_certificate
from ipexctl.machines.ssh.known_hosts_files import _signed
from tests.ssh.conftest import keygen
from tests.ssh.test_connect import refusal, say

CERTIFICATE = (
    "AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tAAAAIK8I3vjvk9Q/q0LsHheOHEJWKveIt6puqfEy"
    "o4vRyeEqAAAAINhSMwf5lDdjab+KEW13TtS9p0Aj9I8aWuTg/32MsW1SAAAAAAAAAAAAAAACAAAAAXQAAAAJAAAA"
    "BW5vZGUxAAAAAAAAAAD//////////wAAAAAAAAAAAAAAAAAAADMAAAALc3NoLWVkMjU1MTkAAAAg5YrklpiTRIXX"
    "+HXs/OhQ7FtYrxsa37jdKtkreTpS+wMAAABTAAAAC3NzaC1lZDI1NTE5AAAAQC3RjeDz9n0uTsh+jZlFIi3Lq48p"
    "Ame1Basy+HK6ybOJtTXjs8bax+TEGtJdNTyzVoycB7Gkamso2DJZLwt/Ygg="
)


def certified(make_sshd, tmp_path, *signing: str, kind: str = "ed25519"):
    """A sshd that shows a certificate, and the public key of whoever signed it."""
    authority, key = tmp_path / "authority", tmp_path / "certified"
    keygen(authority, "-t", kind)
    keygen(key)
    argv = ["ssh-keygen", "-q", "-s", str(authority), "-I", "rack 1", "-h", *signing]
    subprocess.run([*argv, f"{key}.pub"], check=True, capture_output=True)
    sshd = make_sshd(f"HostKey {key}", f"HostCertificate {key}-cert.pub")
    return sshd, " ".join((tmp_path / "authority.pub").read_text().split()[:2])


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
@pytest.mark.parametrize("names", [(), ("-n", "other,node1")])
def test_a_certificate_of_a_known_authority_vouches(make_sshd, transport, tmp_path, kind, names):
    sshd, authority = certified(make_sshd, tmp_path, *names, kind=kind)
    config = sshd.config(
        "n", known=f"@cert-authority node* {authority}\n", more="  HostKeyAlias node1\n"
    )
    assert say(transport(config, "n"), "n", "echo hello") == b"hello\n"


@pytest.mark.parametrize(
    ("signing", "objection"),
    [
        (("-n", "node2,node3"), "it is for node2, node3, not for node1"),
        (("-V", "20200101:20210101"), "it has expired"),
        (("-V", "20990101:21000101"), "it is not valid yet"),
    ],
)
def test_a_certificate_that_does_not_hold_is_refused(
    make_sshd, transport, tmp_path, signing, objection
):
    sshd, authority = certified(make_sshd, tmp_path, *signing)
    config = sshd.config(
        "n", known=f"@cert-authority node1 {authority}\n", more="  HostKeyAlias node1\n"
    )
    error = refusal(transport(config, "n"), "n", HostKeyChanged)
    assert (error.slug, error.why) == (
        "host-certificate-invalid",
        f"the certificate 'rack 1': {objection}",
    )
    assert "publickey" not in sshd.log


def test_a_revoked_authority_vouches_for_nobody(make_sshd, transport, tmp_path):
    sshd, authority = certified(make_sshd, tmp_path)
    known = f"@cert-authority * {authority}\n@revoked * {authority}\n"
    error = refusal(transport(sshd.config("n", known=known), "n"), "n", HostKeyChanged)
    assert error.slug == "host-key-revoked"


def test_revoked_host_keys_of_ssh_config_may_name_an_authority(make_sshd, transport, tmp_path):
    sshd, authority = certified(make_sshd, tmp_path)
    revoked = tmp_path / "authority.pub"
    config = sshd.config(
        "n", known=f"@cert-authority * {authority}\n", more=f"  RevokedHostKeys {revoked}\n"
    )
    error = refusal(transport(config, "n"), "n", HostKeyChanged)
    assert error.slug == "host-key-revoked"
    assert error.why.endswith(f" {revoked}:1")


def test_an_authority_for_other_hosts_does_not_vouch(make_sshd, transport, tmp_path):
    sshd, authority = certified(make_sshd, tmp_path)
    known = f"@cert-authority *.example.com {authority}\n"
    refusal(transport(sshd.config("n", known=known), "n"), "n", HostKeyUnknown)


def test_a_forged_certificate_is_refused():
    """A flipped bit anywhere in it, and the signature is false."""
    blob = bytearray(base64.b64decode(CERTIFICATE))
    good = parse_certificate(bytes(blob))
    assert good and _signed(good)
    blob[80] ^= 1
    forged = parse_certificate(bytes(blob))
    assert forged and not _signed(forged)
    assert not _signed(replace(good, authority=good.authority[:-4])), "the key itself is broken"
