"""Mutual TLS between the hosts of one command: all present one certificate, which is made for the
command (blobs/tls_keys.py), and accept no other."""

import os

from ipexctl.remote.failure import Failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import ssl
    from collections.abc import Callable


def make_tls_context(keys: "dict[str, str]", server: bool) -> "ssl.SSLContext":
    """Return an SSLContext that accepts only peers with the certificate in `keys`."""
    try:
        import ssl
    except ImportError as e:
        raise Failure(
            "this host's Python cannot encrypt (%s)" % e, slug="python-without-ssl"
        ) from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    versions = getattr(ssl, "TLSVersion", None)  # from Python 3.7
    if versions:
        context.minimum_version = versions.TLSv1_2  # novermin
    else:
        context.options |= ssl.OP_NO_SSLv3 | ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
    context.options |= ssl.OP_NO_TICKET
    context.check_hostname = False  # the certificate is that of all hosts
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=keys["cert"])
    with_paths(context.load_cert_chain, keys["cert"], keys["key"])
    return context


def with_paths(load: "Callable[..., object]", *texts: str) -> None:
    """Call `load` with paths that hold the texts: pipes, so that no text is in a file."""
    read_ends = []
    try:
        for text in texts:
            read_end, write_end = os.pipe()
            read_ends.append(read_end)
            try:
                os.write(write_end, text.encode("ascii"))  # a pipe takes a page without a reader
            finally:
                os.close(write_end)
        load(*["/proc/self/fd/%d" % fd for fd in read_ends])
    finally:
        for fd in read_ends:
            os.close(fd)


def in_words(error: "ssl.SSLError") -> str:
    reason = error.reason or ""
    if "VERIFY_FAILED" in reason:
        return "the other end's certificate is not from this command"
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return "the other end refused the certificate of this host"
    return "TLS: %s" % (reason.lower().replace("_", " ") or error)
