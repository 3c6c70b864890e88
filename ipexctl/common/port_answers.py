"""Where a host listens for the other hosts of a command, as it answers the controller."""

from ipexctl.common.message import Message, Port


class PortOpened(Message):
    """The host listens on all its addresses."""

    port: "Port"
    range_port: "Port | None" = None  # a second one, for which users open firewalls
