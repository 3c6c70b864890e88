"""The names of abstract Unix sockets on this host, with the user who has each.

A name is text that any user can choose. Its owner comes from the kernel: netlink's sock_diag, since
Linux 5.3; older kernels tell the names alone.
"""

import socket
import struct

from ipexctl.common.tolerant_reads import read_text
from ipexctl.remote.rank import socket_table

ASKED = 20  # SOCK_DIAG_BY_FAMILY
REQUEST = struct.Struct("=B3xI4xI8x")  # struct unix_diag_req: the family, states, what is shown
SHOW_NAME, SHOW_UID = 1, 0x40
HEAD = 16  # bytes of struct unix_diag_msg
NAME, UID = 0, 7  # attributes of an answer


def list_names() -> "list[tuple[str, int | None]]":
    """Yield (name, uid of its owner); uid None: the kernel does not tell."""
    try:
        asked = REQUEST.pack(socket.AF_UNIX, 0xFFFFFFFF, SHOW_NAME | SHOW_UID)
        names = [read_name(data) for data in socket_table.list_sockets(ASKED, asked)]
    except OSError:
        rows = read_text("/proc/net/unix").splitlines()[1:]
        words = [line.rpartition(" ")[2] for line in rows]  # a name may have line ends
        names = [(name[1:], None) for name in words if name.startswith("@")]
    return [(name, uid) for name, uid in names if name]


def read_name(data: bytes) -> "tuple[str, int | None]":
    """Return (name, uid) of a socket; "" for one without an abstract name."""
    values = dict(socket_table.split_attributes(data, HEAD))
    name, uid = values.get(NAME, b""), values.get(UID, b"")
    text = name[1:].decode("ascii", "replace") if name[:1] == b"\0" else ""
    return text, struct.unpack("=I", uid)[0] if len(uid) == 4 else None
