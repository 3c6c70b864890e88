"""What the step `reboot` asks of a host."""

import subprocess

from ipexctl.remote.failure import Failure
from ipexctl.remote.play.sudo_worker import SudoWorker
from ipexctl.remote.play.task import result

BOOT_ID = "/proc/sys/kernel/random/boot_id"
# a moment later, so that our answer is sent
_COMMAND = "sleep 1; systemctl reboot || shutdown -r now || reboot"


def op_begin(call, args):
    """{password?} -> {boot_id} of before."""
    before = op_boot_id(call, args)
    worker = SudoWorker(call, args.get("password", ""))
    worker.check()
    end = worker.run({"module": "reboot", "args": {}, "number": 0}, False, False)
    worker.kill()
    if "failure" in end:
        failed = end["failure"]
        raise Failure(failed["what"], failed["why"], failed["hint"], slug=failed["slug"])
    return before


def op_boot_id(call, args):
    with open(BOOT_ID) as file:
        return {"boot_id": file.read().strip()}


def apply(task):
    """As root."""
    subprocess.Popen(
        ["/bin/sh", "-c", _COMMAND], cwd="/", stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    return result(True)
