"""Where a host of a run, or of a relay of files, gives files to the others. Pure."""


def peer_url(address: str, port: int) -> str:
    """Without the sha256 of a file. An IPv6 address stands in brackets."""
    return "https://%s:%d" % ("[%s]" % address if ":" in address else address, port)
