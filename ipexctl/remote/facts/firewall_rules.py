"""The rules of this host's firewall, in the words of its programs or else of its files."""

import glob
import shutil

from ipexctl.remote import child_processes
from ipexctl.remote.failure import Failure

PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
# One that shows more than the next stands first. None of them loads a table that is not in use.
PROGRAMS = (
    (("nft", "list", "ruleset"),),
    (("iptables-legacy-save",), ("iptables-save",)),
)
FILES = (
    "/etc/firewalld/zones/*.xml",
    "/etc/ufw/user.rules",
    "/etc/sysconfig/iptables",
    "/etc/iptables/rules.v4",
    "/etc/sysconfig/nftables.conf",
    "/etc/nftables.conf",
)
MOST = 256 << 10
SECONDS = 5.0


def op_rules(call, args):
    """{} -> {rules}: the text of all of them, "" where this user may not read any."""
    told = [_first(call, programs) for programs in PROGRAMS]
    if not any(told):
        told = [_text(path) for pattern in FILES for path in sorted(glob.glob(pattern))]
    return {"rules": "\n".join(filter(None, told))[:MOST]}


def _first(call, programs):
    """What the first of these that is installed prints; mostly only root is told anything."""
    for program in programs:
        path = shutil.which(program[0], path=PATH)
        if path:
            try:
                return child_processes.run(
                    call, (path,) + program[1:], {"PATH": PATH, "LC_ALL": "C"}, SECONDS
                )
            except Failure:
                return ""
    return ""


def _text(path):
    try:
        with open(path, errors="replace") as f:
            return f.read(MOST)
    except OSError:
        return ""
