"""Mutual TLS between the hosts of one command, with certificates that only this command accepts.

A certificate's common name is the SHA-256 of the host's name, as a common name has 64 characters at
most (blobs/peer_certificates.py makes them). Only the command's own CA is trusted.
"""

import hashlib
import os


def op_available(call, header):
    """{} -> {tls}"""
    try:
        import ssl  # noqa: F401  some builds of Python lack it
    except ImportError:
        return {"tls": False}
    return {"tls": True}


def common_name(host):
    return hashlib.sha256(host.encode("utf-8")).hexdigest()


def context(keys, server):
    import ssl

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    versions = getattr(ssl, "TLSVersion", None)  # from Python 3.7
    if versions:
        made.minimum_version = versions.TLSv1_2  # novermin
    else:
        made.options |= ssl.OP_NO_SSLv3 | ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
    made.options |= ssl.OP_NO_TICKET
    made.check_hostname = False  # the names are compared in `peer`
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=keys["ca"])
    with_paths(made.load_cert_chain, keys["cert"], keys["key"])
    return made


def with_paths(read, *texts):
    """Calls `read` with paths at which it finds the texts: pipes, so that none is in a file."""
    opened = []
    try:
        for text in texts:
            out, into = os.pipe()
            opened.append(out)
            try:
                os.write(into, text.encode("ascii"))  # a pipe takes a page without a reader
            finally:
                os.close(into)
        read(*["/proc/self/fd/%d" % fd for fd in opened])
    finally:
        for fd in opened:
            os.close(fd)


def peer(tls):
    """The common name of the other end's certificate."""
    fields = dict(field[0] for field in tls.getpeercert()["subject"])
    return fields.get("commonName")


def in_words(error):
    reason = error.reason or ""
    if "VERIFY_FAILED" in reason:
        return "the other end's certificate is not from this command"
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return "the other end refused the certificate of this host"
    return "TLS: %s" % (reason.lower().replace("_", " ") or error)
