"""The certificates by which the hosts of one run, or of one relay of files, know one another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

# No host's clock is so wrong that its certificates are not valid; they end with the command.
BEGIN, END = datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 59)


Keys = Mapping[str, Mapping[str, str]]  # by host


def certificates(issuer_name: str, hosts: Sequence[str]) -> Keys:
    """`ca`, `cert` and `key` for each host, as PEM. The CA's own key is not kept."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    ca_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name(issuer_name)
    ca = _pem(_certificate(issuer, ca_key, issuer, ca_key, is_ca=True))
    made = {}
    for host in hosts:
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        cert = _pem(_certificate(_name(host), key, issuer, ca_key, is_ca=False))
        made[host] = {"ca": ca, "cert": cert, "key": secret.decode("ascii")}
    return made


def _name(text: str) -> x509.Name:
    """A common name has 64 characters at most, a host's name may have more: so it is the SHA-256
    of the name. remote/connection/peer_tls.py computes the same."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, digest)])


def _pem(cert: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return cert.public_bytes(Encoding.PEM).decode("ascii")


def _certificate(
    name: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    ca_key: ec.EllipticCurvePrivateKey,
    *,
    is_ca: bool,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    public = key.public_key()
    usage = x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    purposes = [
        ExtendedKeyUsageOID.CLIENT_AUTH,
        ExtendedKeyUsageOID.SERVER_AUTH,
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(END)
        .add_extension(x509.BasicConstraints(is_ca, 0 if is_ca else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if not is_ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return builder.sign(ca_key, hashes.SHA256())
