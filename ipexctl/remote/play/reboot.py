"""What the step `reboot` asks of a host."""

from ipexctl.remote.play.sudo_worker import run_as_root

BOOT_ID = "/proc/sys/kernel/random/boot_id"
# a moment later, so that our answer is sent; the terminal that sudo may make for it ends before
_COMMAND = (
    "trap '' HUP; (sleep 1; systemctl reboot || shutdown -r now || reboot) </dev/null >/dev/null "
    "2>&1 &"
)


def op_begin(call, password=""):
    """{password?} -> {boot_id} of before."""
    before = op_boot_id(call)
    run_as_root(["/bin/sh", "-c", _COMMAND], password)
    return before


def op_boot_id(call):
    with open(BOOT_ID) as file:
        return {"boot_id": file.read().strip()}
