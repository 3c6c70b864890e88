"""--notify of a run whose controller is gone, on three hosts: the host that leads tells, once."""

from __future__ import annotations

import time

from tests.run_lab.conftest import Runner

COMMAND = 'echo "$IPEXCTL_STATE $IPEXCTL_NAME" >> ~/told'
CLAIM = 10.0


def told(runner: Runner) -> dict[str, str]:
    """What the command wrote into the home of each host."""
    look = ["sh", "-c", "cat told 2>/dev/null; rm -f told"]
    said = {host: runner.lab.run_in(host, look, user=runner.lab.user) for host in runner.lab.hosts}
    return {host: done.stdout for host, done in said.items() if done.stdout}


def test_the_first_host_tells_of_a_detached_run_once(runner: Runner) -> None:
    script = str(runner.script("import time; time.sleep(4)"))
    done = runner.plain("-d", "-n", "3", "--name", "night", "--notify", COMMAND, script)
    assert done.returncode == 0, done.stderr
    time.sleep(CLAIM + 12)
    assert told(runner) == {"node01": "done night\n"}
