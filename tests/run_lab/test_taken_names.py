"""Another account takes all socket names of our runs that it can foretell, as often as it can."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from ipexctl.common.waiting import wait_until
from tests.run_lab.test_two_users import PYTHON, Account
from tests.run_lab.test_two_users import two as two  # noqa: PLC0414  a fixture

TAKER = """
import hashlib, re, socket, sys, time
uid, host = sys.argv[1:]
hashes = [hashlib.sha256((role + host).encode()).hexdigest()[:16]
    for role in ('', 'guardian of ', 'keeper of ')]
seen, taken = set(), []
while True:
    with open('/proc/net/unix', errors='replace') as table:
        seen.update(re.findall('@ipexctl-(?:run|queue)/%s/([a-z0-9-]+)/' % uid, table.read()))
    for run in sorted(seen):
        base = run.partition('-r0')[0]
        for name in [base] + ['%s-r%02d' % (base, number) for number in range(2, 5)]:
            for short in hashes:
                holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                try:
                    holder.bind('\\0ipexctl-run/%s/%s/%s' % (uid, name, short))
                except OSError:
                    holder.close()
                    continue
                holder.listen(64)
                taken.append(holder)
                print(name, flush=True)
    time.sleep(0.02)
"""
TWICE = """
import os, sys, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and len(sys.argv) > 1:
    sys.exit(3)
for i in range(1000):
    print("step", i, flush=True)
    time.sleep(0.1)
"""


NEW_NETWORK = 0x40000000  # CLONE_NEWNET


@pytest.fixture
def own_network() -> Iterator[None]:
    """Names of sockets belong to a network: runs outside of this test are not in its queue."""
    libc, before = ctypes.CDLL(None), os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if libc.unshare(NEW_NETWORK):
        pytest.skip("needs root, to make a network")
    try:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield
    finally:
        assert libc.setns(before, NEW_NETWORK) == 0
        os.close(before)


@pytest.fixture
def ann(own_network: None, two: tuple[Account, Account]) -> Iterator[Account]:
    """An account with runs, while another one takes names."""
    ann, bob = two
    (ann.code / "train.py").write_text(TWICE)
    taker = subprocess.Popen(
        [PYTHON, "-c", TAKER, str(ann.ids["user"]), "localhost"],
        stdout=subprocess.PIPE, text=True, **bob.ids,
    )  # fmt: skip
    yield ann
    for row in ann.ps()["runs"]:
        ann.call("stop", row["run_id"], "-t", "0")
    taker.kill()
    names = taker.communicate()[0].split()
    assert len(names) > 6  # of at least one run and of its next attempts


def start(ann: Account, *words: str) -> None:
    done = ann.call("run", "-d", "--force", *words)
    assert done.returncode == 0, done.stderr


def row_of(ann: Account, name: str) -> dict:
    rows = [row for row in ann.ps()["runs"] if row["name"] == name]
    return rows[0] if rows else {}


def is_seen_and_stopped(ann: Account, name: str) -> None:
    row = row_of(ann, name)
    assert (row["state"], row["hosts_alive"]) == ("running", ["localhost"]), row
    refused = ann.call("rm", row["run_id"], "-y")
    assert refused.returncode != 0, refused.stdout
    assert f"{row['run_id']} is running" in refused.stderr, refused.stderr
    stopped = ann.call("stop", row["run_id"], "-t", "2")
    assert (stopped.returncode, row_of(ann, name)) == (0, {}), stopped.stderr
    ended = ann.call("ps", "-a", "--json").stdout
    (row,) = (r for r in json.loads(ended)["runs"] if r["run_id"] == row["run_id"])
    assert row["state"] == "stopped", row


def test_the_next_attempt_is_visible_and_can_be_stopped(ann: Account) -> None:
    start(ann, "--name", "again", "-n", "2", "--restarts", "2", "train.py", "fail")
    assert wait_until(
        lambda: str(row_of(ann, "again").get("run_id")).endswith("-r02")
        and row_of(ann, "again")["state"] == "running",
        120, 0.5,
    )  # fmt: skip
    is_seen_and_stopped(ann, "again")


def test_a_queued_run_is_visible_and_can_be_stopped(ann: Account) -> None:
    start(ann, "--name", "first", "-n", "1", "--queue", "train.py")
    assert wait_until(lambda: row_of(ann, "first").get("state") == "running", 120, 0.5)
    start(ann, "--name", "second", "-n", "1", "--queue", "train.py")
    assert row_of(ann, "second")["state"] == "queued"
    is_seen_and_stopped(ann, "first")
    assert wait_until(lambda: row_of(ann, "second").get("state") == "running", 120, 0.5)
    is_seen_and_stopped(ann, "second")
