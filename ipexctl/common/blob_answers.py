"""What a host answers and reports about blobs that it has, gets from the controller, or fetches
from another host (remote/blobs)."""

from ipexctl.common.message import AnyText, Message, Signed, Variant


class BlobsMissing(Message):
    """Those of the blobs in a request that the host lacks."""

    missing: "list[AnyText]"  # by sha256


class BlobsFetched(Message):
    """The host has all blobs that it was to fetch."""

    fetched: int  # bytes that came over the network


class TransferEvent(Variant):
    """What a host reports while it gets blobs."""


class BlobsAwaited(TransferEvent):
    """The host waits for these blobs, in the order of the request."""

    begins: "dict[AnyText, int]"  # by sha256: the first byte that it lacks


class BytesArrived(TransferEvent):
    """The host has further bytes of the blobs."""

    bytes: "Signed"  # below 0: what an earlier try had left was damaged
