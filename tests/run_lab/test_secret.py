"""--secret-env: a canary that the ranks have, and that is looked for everywhere else."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from ipexctl.common.waiting import wait_until
from tests.sniffer import sniffed

SECRET = "cq7Zr9pWx2LmVt5K"  # noqa: S105
HALVES = (SECRET[:8], SECRET[8:])  # a packet may end anywhere
SHOWN = "shown-by-the-control-8841"  # what every search must find, or it finds nothing at all

SCRIPT = f"""
import os, socket, sys, time
assert os.environ['CANARY'][::-1] == {SECRET[::-1]!r}, 'not the secret'
open('control', 'w').write({SHOWN!r})
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.sendto({SHOWN!r}.encode(), (os.environ['MASTER_ADDR'], 9))
print('up', flush=True)
time.sleep(100)
"""

# on a host, as root: what the processes and the files changed since the run began hold
SEARCH = """
import os, sys
words = [w.encode() for w in sys.argv[2:]]
def look(kind, path):
    try:
        with open(path, 'rb') as f: data = f.read(64 << 20)
    except OSError: return
    if any(w in data for w in words): print(kind, path)
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid(): continue
    try: args = open('/proc/%s/cmdline' % pid).read().split(chr(0))
    except OSError: continue
    for name in ('cmdline', 'environ'):
        look('rank' if args[-2:-1] == ['script.py'] else 'process', '/proc/%s/%s' % (pid, name))
since = os.stat(sys.argv[1]).st_mtime
for top in ('/home', '/root', '/tmp', '/run', '/dev/shm', '/var/tmp'):
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, n) for n in names):
            try: fresh = os.lstat(path).st_mtime >= since and os.path.isfile(path)
            except OSError: continue
            if fresh: look('file', path)
"""


def found_on(lab, host: str, *words: str) -> list[tuple[str, str]]:
    argv = ["python3", "-c", SEARCH, "/dev/shm/began", *words]
    done = lab.run_in(host, argv)
    assert done.returncode == 0, done.stderr
    return [tuple(line.split(" ", 1)) for line in done.stdout.splitlines()]


def in_files(folder: Path) -> str:
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != "script.py")
    return "".join(p.read_text(errors="replace") for p in files)


def test_a_secret_is_in_the_ranks_and_nowhere_else(
    full_rung, runner, tmp_path_factory, monkeypatch
):
    monkeypatch.setenv("CANARY", SECRET)
    packets = tmp_path_factory.mktemp("packets") / "all"
    for host in runner.lab.hosts:
        runner.lab.run_in(host, ["touch", "/dev/shm/began"])
    script = runner.script(SCRIPT)
    with sniffed(runner.lab, packets):
        run = runner.start("-n", "3", "--secret-env", "CANARY", str(script))
        for _ in range(3):
            run.until(event="line", text="up")
        held = {host: found_on(runner.lab, host, *HALVES) for host in runner.lab.hosts}
        control = {host: found_on(runner.lab, host, SHOWN) for host in runner.lab.hosts}
        here = Path(f"/proc/{run.process.pid}/cmdline").read_text()
        run.process.send_signal(signal.SIGTERM)
        assert run.finish()["exit_code"] == 130
        after = {host: found_on(runner.lab, host, *HALVES) for host in runner.lab.hosts}

    for host, found in held.items():
        assert [(kind, re.sub(r"\d+", "N", path)) for kind, path in found] == [
            ("rank", "/proc/N/environ")
        ], host
    for host, found in control.items():
        assert any(kind == "file" and path.endswith("/control") for kind, path in found), host
    assert after == dict.fromkeys(runner.lab.hosts, [])

    told = here + in_files(runner.folder) + repr(run.events)
    assert [word for word in HALVES if word in told] == []
    # the sniffer reads on after the fact
    assert wait_until(lambda: SHOWN.encode() in packets.read_bytes(), 20, 0.1)
    everything = packets.read_bytes()
    assert [word for word in HALVES if word.encode() in everything] == []


def test_what_is_shown_of_a_plan_has_the_name_of_a_secret_and_not_its_value(runner):
    script = str(runner.script("print('never started')\n"))
    words = ["-n", "3", "--secret-env", "CANARY"]
    done = runner.plain("--explain", "--json", *words, script, CANARY=SECRET)
    assert done.returncode == 0, done.stderr
    assert "CANARY" in done.stdout
    assert SECRET not in done.stdout + done.stderr
