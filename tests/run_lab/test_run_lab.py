"""run on three real hosts: real sshd, real mpirun, real torch."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.run_lab.test_run_faults import SLEEP, up

pytestmark = pytest.mark.any_rung

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_ddp.py"


def test_ddp_over_gloo_on_three_hosts_learns_and_agrees(runner):
    run, result = runner.train("-n", "6", "-ppn", "2", str(EXAMPLE), "--epochs", "3")
    assert [h["survivors"] for h in result["hosts"]] == [0, 0, 0]
    losses = {}
    for rank in range(6):
        found = [re.search(r"epoch (\d+) loss ([0-9.]+)", t) for t in run.lines(rank)]
        losses[rank] = [float(m[2]) for m in found if m]
    assert losses == dict.fromkeys(range(6), losses[0])
    assert len(losses[0]) == 3
    assert losses[0] == sorted(losses[0], reverse=True) and losses[0][0] > losses[0][-1]


# What the start-up files of other clusters set: broken for any program that is started by hand.
_LOGIN_TEXT = """
LD_PRELOAD=/opt/nowhere/libtcmalloc.so OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 FI_PROVIDER=sockets
I_MPI_ROOT=/opt/nowhere/mpi I_MPI_FABRICS=shm I_MPI_PIN_DOMAIN=[0xf0000000] CCL_WORKER_COUNT=0
GLOO_SOCKET_IFNAME=ib0 ATEN_CPU_CAPABILITY=default SLURM_JOBID=4711 RANK=7 WORLD_SIZE=1
MASTER_ADDR=127.0.0.1 PYTHONHOME=/opt/nowhere/python PYTHONPATH=/opt/nowhere/site
"""
_LOGIN = _LOGIN_TEXT.split()


def test_variables_of_the_login_shell_do_not_reach_a_run(runner):
    """So doctor has no checks of them."""
    script = runner.script(
        "import os, runpy\n"
        "here = {f'{name}={value}' for name, value in os.environ.items()}\n"
        f"print('login', *sorted(here & set({_LOGIN!r})))\n"
        f"runpy.run_path({EXAMPLE.name!r}, run_name='__main__')\n"
    )
    runner.script(EXAMPLE.read_text(), EXAMPLE.name)
    places = [host.files / ".bashrc" for host in runner.lab.hosts.values()]
    before = [place.read_text() if place.exists() else "" for place in places]
    try:
        for place in places:
            place.write_text("export " + " ".join(f"'{word}'" for word in _LOGIN) + "\n")
        run, _ = runner.train("-n", "2", "-ppn", "1", str(script), "--epochs", "1")
    finally:
        for place, text in zip(places, before, strict=True):
            place.write_text(text)
    assert [run.lines(rank)[0] for rank in (0, 1)] == ["login", "login"]


def test_no_thread_of_gloo_outlives_the_examples_process_group(runner):
    """One that did could abort Python while it shuts down: explain ccl-abort-at-exit."""
    runner.script(EXAMPLE.read_text(), EXAMPLE.name)
    script = runner.script(
        "import os, runpy\n"
        "import torch.distributed as dist\n"
        "def names():\n"
        "    tasks = os.listdir('/proc/self/task')\n"
        "    return [open(f'/proc/self/task/{t}/comm').read().strip() for t in tasks]\n"
        "destroy = dist.destroy_process_group\n"
        "def look_and_destroy():\n"
        "    print('before', *names())\n"
        "    destroy()\n"
        "dist.destroy_process_group = look_and_destroy\n"
        f"runpy.run_path({EXAMPLE.name!r}, run_name='__main__')\n"
        "print('after', *names())\n"
    )
    run = runner.start("-n", "2", str(script), "--epochs", "1")
    assert run.finish()["exit_code"] == 0, run.lines()
    for rank in (0, 1):
        said = {line.split()[0]: line for line in run.lines(rank)}
        assert "gloo" in said["before"]
        assert "gloo" not in said["after"]


def test_every_rank_gets_torchs_names_its_own_interface_and_its_arguments(namespaces, runner):
    script = runner.script(
        "import json, os, sys\n"
        "names = ('RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT '\n"
        "         'GLOO_SOCKET_IFNAME OMP_NUM_THREADS TOKEN').split()\n"
        "print(json.dumps({**{n: os.environ.get(n) for n in names}, 'argv': sys.argv[1:],\n"
        "  'cpus': sorted(os.sched_getaffinity(0)), 'home': os.environ['HOME']}))\n"
    )
    odd = ["a b", "it's", 'say "hi"', "two\nlines", "$HOME;`id`", "--flag", "-n", "ü"]
    run = runner.start("-n", "6", "-ppn", "2", "--env", "TOKEN=x y", str(script), *odd)
    assert run.finish()["exit_code"] == 0
    plan = next(e for e in run.events if e["event"] == "plan")
    master, _, port = plan["master"].rpartition(":")
    nics = {rank: h["nic"] for h in plan["hosts"] for rank in h["ranks"]}
    assert len(set(nics.values())) == 2, "the lab has a host whose interface has another name"
    for rank in range(6):
        seen = json.loads(run.lines(rank)[0])
        cpus = seen.pop("cpus")
        assert len(cpus) == max(1, os.cpu_count() // 2) or os.cpu_count() < 2
        assert seen == {
            "RANK": str(rank),
            "WORLD_SIZE": "6",
            "LOCAL_RANK": str(rank % 2),
            "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": master,
            "MASTER_PORT": port,
            "GLOO_SOCKET_IFNAME": nics[rank],
            "OMP_NUM_THREADS": str(max(1, os.cpu_count() // 2)),
            "TOKEN": "x y",
            "argv": odd,
            "home": "/home/trainer",
        }


def test_a_module_runs_with_the_rest_of_its_folder(runner):
    (runner.folder / "pkg").mkdir()
    runner.script("", "pkg/__init__.py")
    runner.script("from pkg.other import word\nprint(word)\n", "pkg/train.py")
    runner.script("word = 'hello'\n", "pkg/other.py")
    run = runner.start("-n", "3", "-m", "pkg.train")
    assert run.finish()["exit_code"] == 0
    assert [run.lines(r) for r in range(3)] == [["hello"]] * 3


def test_the_first_rank_that_fails_gives_the_exit_code_and_is_named(runner):
    script = runner.script(
        "import os, sys, time\n"
        "if os.environ['RANK'] == '3': print('bad data'); sys.exit(3)\n"
        "time.sleep(100)\n"
    )
    run = runner.start("-n", "6", "-ppn", "2", str(script))
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (3, "rank-failed")
    assert result["first"] == {"rank": 3, "host": "node02", "code": 3}
    assert result["tail"] == ["bad data"]
    assert [h["survivors"] for h in result["hosts"]] == [0, 0, 0]
    assert runner.left(run.run_id) == {}


def test_kill_9_of_the_controller_leaves_no_process_on_any_host(runner):
    script = runner.script(
        # a child that takes care to be out of reach of process groups and sessions
        "import subprocess, time\nsubprocess.Popen(['setsid', 'sleep', '300'])\n" + SLEEP
    )
    run = runner.start("-n", "6", "-ppn", "2", str(script))
    up(run, 6)
    assert sorted(runner.left(run.run_id)) == ["node01", "node02", "node03"]
    run.process.kill()
    assert runner.gone(run.run_id, seconds=10) == {}


def test_ctrl_c_reaches_the_ranks_and_leaves_nothing(runner):
    script = runner.script(
        "import time\n"
        "try:\n    print('up', flush=True); time.sleep(100)\n"
        "except KeyboardInterrupt:\n    print('saved')\n"
    )
    run = runner.start("-n", "6", "-ppn", "2", str(script))
    up(run, 6)
    run.process.send_signal(signal.SIGINT)
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (130, "interrupted")
    assert run.lines().count("saved") == 6
    assert runner.left(run.run_id) == {}


def test_a_second_ctrl_c_kills_ranks_that_will_not_go(runner):
    script = runner.script(
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEP
    )
    run = runner.start("-n", "3", str(script))
    up(run, 3)
    run.process.send_signal(signal.SIGINT)
    run.until(event="note")
    began = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    assert run.finish()["exit_code"] == 130
    assert time.monotonic() - began < 8, "the ten seconds of grace were not cut short"
    assert runner.left(run.run_id) == {}


def test_nobody_logs_in_between_the_nodes(runner):
    logs = {name: Path(h.sshd_log) for name, h in runner.lab.hosts.items()}
    before = {name: log.stat().st_size for name, log in logs.items()}
    run = runner.start("-n", "6", "-ppn", "2", str(runner.script("print('hi')\n")))
    assert run.finish()["exit_code"] == 0
    for name, log in logs.items():
        new = log.read_bytes()[before[name] :].decode()
        assert new.count("Connection from") == 1, new
        assert new.count("Starting session") == 1, new


def test_piped_output_is_plain_and_everything_else_is_on_stderr(runner):
    done = runner.plain("-v", "-n", "3", str(runner.script("print('\\x1b[31mhi\\x1b[0m [b]')\n")))
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [f"node0{i + 1} r0{i} | hi [b]" for i in range(3)]
    assert "\x1b" not in done.stderr
    assert "hosts: 0" in done.stderr


def test_too_many_ranks_are_refused_before_anything_starts(runner):
    done = runner.plain("-n", "9", "-ppn", "2", str(runner.script("")))
    assert (done.returncode, done.stdout, done.slug) == (2, "", "ranks-do-not-fit")
    what = done.errors[0].what
    assert what.startswith("-n 9 ") and what.endswith(" 6 (-ppn)") and " 3 hosts " in what


def test_hosts_without_an_environment_are_told_how_to_get_one(namespaces, runner):
    done = runner.plain("--root", "~/empty", "-n", "3", str(runner.script("")))
    assert (done.returncode, done.slug) == (123, "hosts-not-ready")
    assert " /home/trainer/empty" in done.stderr
    assert f"ipexctl install -f {runner.lab.hostfile} -F " in done.stderr
