"""What a host answers about its own speed, and that of its links."""

from ipexctl.common.message import AnyText, Line, Message, Variant


class HostSpeed(Message):
    """What the program that computes has said; `why`: what stopped it. None: not measured."""

    status: "Line"  # ok, no-torch, failed or late; ready: it has begun, and says more
    why: "AnyText" = ""
    torch: "Line" = ""  # its version
    threads: "int | None" = None
    fp32: "float | None" = None  # 1e9 operations per second, as bf16
    bf16: "float | None" = None
    copy: "float | None" = None  # 1e9 bytes per second; None also if memory is short
    onednn: "Line" = ""  # the instruction set that oneDNN has chosen
    cpuinfo_mounted: bool = False


class SpeedEvent(Variant):
    """What a host reports before it is measured."""


class TorchLoaded(SpeedEvent):
    """It begins on the next message, at the same time as the others."""


class LinkMeasured(Message):
    """One direction to another host."""

    target: "AnyText"
    latency: "float | None" = None  # seconds, there and back
    rate: "float | None" = None  # bits per second
    error: "Line" = ""


class LinksMeasured(Message):
    links: "list[LinkMeasured]"


class PacketsCounted(Message):
    """None: the kernel does not count them."""

    sent: "int | None" = None
    lost: "int | None" = None
