"""What a host answers about which other hosts it can connect to."""

from ipexctl.common.message import AnyText, Line, Message


class HostTried(Message):
    target: "AnyText"
    error: "Line" = ""


class LargePacketsSent(Message):
    """What became of large packets. None: the other end acknowledges nothing at all."""

    target: "AnyText"
    lost: "bool | None" = None
    passes: "int | None" = None  # bytes of the largest that arrive, if it was tried


class HostsTried(Message):
    results: "list[HostTried]"
    large: "list[LargePacketsSent]"
