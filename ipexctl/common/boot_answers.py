"""What a host answers about its boot."""

from ipexctl.common.message import Line, Message


class BootFound(Message):
    boot_id: "Line"  # another one after each boot
