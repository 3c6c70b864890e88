"""Begin a reboot of this host, for the step `reboot`."""

from ipexctl.common.boot_answers import BootFound
from ipexctl.remote.play.sudo_worker import run_as_root

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

BOOT_ID = "/proc/sys/kernel/random/boot_id"
# after a pause, so that the reply is sent; the terminal that sudo may make for it ends before
_COMMAND = (
    "trap '' HUP; (sleep 1; systemctl reboot || shutdown -r now || reboot) </dev/null >/dev/null "
    "2>&1 &"
)


def op_begin(call: "Call", password: str = "") -> BootFound:
    """Return the boot that ends now."""
    reply = op_boot_id(call)
    run_as_root(["/bin/sh", "-c", _COMMAND], password)
    return reply


def op_boot_id(call: "Call") -> BootFound:
    with open(BOOT_ID) as file:
        return BootFound(file.read().strip())
