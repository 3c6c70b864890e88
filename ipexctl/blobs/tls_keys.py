"""The key by which the hosts of one run, or of one relay of files, recognize each other: a
self-signed certificate that all of them present, and the only one that they accept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

# Valid for hosts with any clock; the certificate ends with the command.
BEGIN, END = datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 59)

Keys = Mapping[str, str]  # cert and key, as PEM


def make_keys() -> Keys:
    """Return a new self-signed certificate and its private key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ipexctl")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,  # it is its own issuer
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    public = key.public_key()
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem = cert.public_bytes(serialization.Encoding.PEM)
    return {"cert": pem.decode("ascii"), "key": secret.decode("ascii")}
