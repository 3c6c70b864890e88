"""Which host can connect to which."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Peer:
    """The result of a TCP connection from `source` to `target` at `address`."""

    source: str
    target: str
    address: str
    ok: bool
    error: str = ""
    in_range: str | None = None  # the error at a port beside MASTER_PORT: "" it works, None untried
    lost: bool | None = None  # 64 KiB did not arrive, though a byte did; None: not known
    passes: int | None = None  # bytes of the largest packet that arrives, if some are lost
