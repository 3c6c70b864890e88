"""Addresses with their ports, as they are written. Pure."""


def host_port(address: str, port: int) -> str:
    """Return ADDRESS:PORT; an IPv6 address is put in brackets."""
    return "%s:%d" % ("[%s]" % address if ":" in address else address, port)


def peer_url(address: str, port: int) -> str:
    """Return the URL at which a host of a run, or a relay of files, serves files to the others; the
    sha256 of a file is to be appended."""
    return "https://" + host_port(address, port)
