"""Addresses with their ports, as they are written. Pure."""


def host_port(address: str, port: int) -> str:
    """An IPv6 address stands in brackets."""
    return "%s:%d" % ("[%s]" % address if ":" in address else address, port)


def peer_url(address: str, port: int) -> str:
    """Where a host of a run, or of a relay of files, gives files to the others: without a file's
    sha256."""
    return "https://" + host_port(address, port)
