"""Several runs on the same hosts at once: each has its own ports, sockets, folders and end."""

from __future__ import annotations

import signal

import pytest

# all ranks of a run hold connections to its rank 0, and hear from it what it was called
TALKS = """
import os, socket, sys, time
name, rank = sys.argv[1].encode(), int(os.environ['RANK'])
place = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])
open('mine', 'wb').write(name)
links = []
if rank == 0:
    with socket.create_server(('', place[1])) as server:
        links = [server.accept()[0] for _ in range(int(os.environ['WORLD_SIZE']) - 1)]
while rank and not links:
    try:
        links = [socket.create_connection(place)]
    except ConnectionRefusedError:
        time.sleep(0.1)
while True:
    over = os.path.exists('end') if rank == 0 else False
    for link in links:
        if rank == 0:
            link.sendall(b'.' if over else name)
        heard = link.recv(1)
        if rank and heard != b'.':
            assert heard == name, 'another run has spoken'
        if rank:
            link.sendall(heard)
            over = heard == b'.'
    assert open('mine', 'rb').read() == name, 'another run has written'
    print('beat', flush=True)
    if over:
        break
    time.sleep(0.1)
"""


def beats(run, ranks: int = 6) -> None:
    """From now on, a word of every rank."""
    seen = set()
    while len(seen) < ranks:
        seen.add(run.until(event="line", text="beat")["rank"])


def start(runner, name: str):
    run = runner.start("-n", "6", str(runner.script(TALKS)), name)
    beats(run)
    return run


@pytest.mark.soak
def test_of_runs_side_by_side_one_that_is_stopped_or_killed_leaves_the_others_alone(runner):
    stays, stopped = start(runner, "a"), start(runner, "b")
    stopped.process.send_signal(signal.SIGINT)
    result = stopped.finish()
    assert (result["ended_by"], result["exit_code"]) == ("interrupted", 130)
    assert [h["survivors"] for h in result["hosts"]] == [0, 0, 0]
    assert runner.left(stopped.run_id) == {}
    beats(stays)

    killed = start(runner, "c")
    killed.process.kill()
    assert runner.gone(killed.run_id, seconds=20) == {}
    beats(stays)

    end = f"/home/trainer/.ipexctl/runs/{stays.run_id}/work/end"
    assert runner.lab.run_in("node01", ["touch", end]).returncode == 0
    result = stays.finish()
    assert (result["ended_by"], result["exit_code"]) == ("ranks", 0)
    assert runner.left(stays.run_id) == {}
