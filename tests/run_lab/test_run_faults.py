"""What a run does when scripts, hosts, terminals and the controller misbehave. Real lab hosts."""

from __future__ import annotations

import re
import signal
import subprocess
import time

import pytest

from ipexctl.common.waiting import wait_until

# loses its parent, its session, its environment, and hears no signal that can be ignored
HIDES = (
    "import os\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        os.execve('/bin/sh', ['sh', '-c', \"trap '' TERM INT HUP; while :; do sleep 31337;\"\n"
    "                  ' done'], {'PATH': '/usr/bin:/bin'})\n"
    "    os._exit(0)\n"
)
AGENT = "[p]ython3 -ISc"
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(100)\n"
COUNT = "import time\nfor i in range(40): print('up', flush=True); time.sleep(0.1)\n"


def hidden(runner) -> list[str]:
    """Hosts on which a process of HIDES lives."""
    look = ["/bin/sh", "-c", "pgrep -f '[s]leep 31337'"]
    return [n for n in runner.lab.hosts if runner.lab.run_in(n, look).returncode == 0]


def up(run, ranks):
    seen = set()
    while len(seen) < ranks:
        seen.add(run.until(event="line", text="up")["rank"])


# --- scripts -------------------------------------------------------------------------------------


def test_a_child_that_hides_ends_with_its_rank(runner):
    result = runner.start("-n", "3", str(runner.script(HIDES))).finish()
    assert (result["exit_code"], [h["survivors"] for h in result["hosts"]]) == (0, [0, 0, 0])
    assert hidden(runner) == []


@pytest.mark.parametrize(("host", "victim"), [("node02", "[r]ank.pyc$"), ("node01", AGENT)])
def test_a_child_that_hides_is_found_when_its_wrapper_or_the_hubs_agent_is_killed(
    runner, host, victim
):
    run = runner.start("-n", "3", str(runner.script(HIDES + SLEEP)))
    up(run, 3)  # which a rank may say before its grandchild has begun
    assert wait_until(lambda: hidden(runner) == ["node01", "node02", "node03"], 10, 0.1)
    kill = f"kill -9 $(pgrep -o -f '{victim}')"
    assert runner.lab.run_in(host, ["/bin/sh", "-c", kill]).returncode == 0
    result = run.finish()
    assert host in result["cause"]
    # the hub's host is not waited for: its agent is gone
    assert wait_until(lambda: not hidden(runner), 10, 0.1)


def test_a_run_goes_on_when_only_we_do_not_reach_a_host_any_more(runner):
    run = runner.start("-n", "3", str(runner.script("import time\n" + COUNT + "time.sleep(6)\n")))
    up(run, 3)
    kill = f"kill -9 $(pgrep -o -f '{AGENT}')"
    assert runner.lab.run_in("node02", ["/bin/sh", "-c", kill]).returncode == 0
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
    assert [h["survivors"] for h in result["hosts"]] == [0, 0, 0]
    assert [len(run.lines(rank)) for rank in range(3)] == [40] * 3  # it is connected again


@pytest.mark.parametrize(
    ("order", "victim", "cause"),
    [
        ("KILL", "ipexctl-run", "node02 was lost: the (supervisor .* killed .*|connection ended)"),
        ("STOP", "ipexctl-run", "node02 was lost: no message from it for 4 s"),
        ("KILL", "ipexctl-guard", ""),
    ],
)
def test_what_watches_the_run_on_a_host_is_killed_or_stopped(runner, order, victim, cause):
    """Without its guardian a run goes on; without its supervisor the guardian sweeps."""
    script = runner.script(HIDES + SLEEP.replace("100", "100 if CAUSE else 3"))
    script.write_text(script.read_text().replace("CAUSE", repr(bool(cause))))
    run = runner.start("-n", "3", "--host-timeout", "4", str(script))
    up(run, 3)
    strike = ["pkill", f"-{order}", "-x", victim]
    assert runner.lab.run_in("node02", strike).returncode == 0
    result = run.finish()
    assert result["exit_code"] == (121 if cause else 0)
    assert re.fullmatch(cause, result["cause"] or "")
    known = {0, None} if order == "STOP" else {0}  # it may be given up before its guardian says so
    first, struck, last = [h["survivors"] for h in result["hosts"]]
    assert (first, last) == (0, 0) and struck in known
    # where it stands still, its guardian kills it
    assert wait_until(lambda: not hidden(runner), 20 if order == "STOP" else 0, 0.1)
    for name in runner.lab.hosts:
        assert runner.lab.run_in(name, ["pgrep", "ipexctl-"]).returncode == 1


def test_the_kernel_takes_a_rank_before_what_watches_it(runner):
    script = runner.script("print(open('/proc/self/oom_score_adj').read().strip())\n")
    run = runner.start("-n", "1", str(script))
    assert run.finish()["exit_code"] == 0
    assert run.lines(0) == ["500"]


def test_a_script_that_removes_its_folder_and_its_log_is_still_heard(runner):
    script = runner.script(
        "import os, time\nprint('before', flush=True)\n"
        "os.system('chmod 000 ../logs/rank*; rm -rf ../work ../logs')\n"
        "print('after', flush=True)\ntime.sleep(0.3)\nprint('last', end='')\n"
    )
    run = runner.start("-n", "3", str(script))
    assert run.finish()["exit_code"] == 0
    assert [run.lines(r) for r in range(3)] == [["before", "after", "last"]] * 3


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a b.py", marks=pytest.mark.soak),
        "-d.py",
        pytest.param("no-suffix", marks=pytest.mark.soak),
    ],
)
def test_a_script_may_have_any_name_and_options_after_it_are_its_own(runner, name):
    runner.script("import sys\nprint(sys.argv[1:])\n", name)
    run = runner.start("-np", "1", "--", name, "-np", "3", "--json")
    assert run.finish()["exit_code"] == 0
    assert run.lines(0) == ["['-np', '3', '--json']"]


def test_of_a_link_to_a_script_the_scripts_own_folder_is_sent(runner):
    (runner.folder / "real").mkdir()
    runner.script("import other\nprint(other.x)\n", "real/train.py")
    runner.script("x = 5\n", "real/other.py")
    (runner.folder / "link.py").symlink_to("real/train.py")
    run = runner.start("-n", "1", "link.py")
    assert run.finish()["exit_code"] == 0
    assert run.lines(0) == ["5"]


def test_a_missing_script_and_a_folder_are_refused(runner):
    for given, words in (("nosuch.py", "there is no script nosuch.py"), (".", ". is a folder")):
        done = runner.plain("-n", "1", given)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr


# --- values of --env -----------------------------------------------------------------------------


def test_values_of_env_are_seen_by_the_ranks_and_by_nobody_else(runner):
    script = runner.script("import os\nprint(os.environ['TOKEN'][::-1], flush=True)\n" + SLEEP)
    run = runner.start("-n", "3", "--env", "TOKEN=zq9tellnobody", str(script))
    up(run, 3)
    look = (
        "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep '[z]q9tell'; "
        "cd /home/trainer/.ipexctl/runs && grep -rl '[z]q9tell' .; "
        f"find {run.run_id} -perm /077 ! -type l"
    )
    for name in runner.lab.hosts:
        assert runner.lab.run_in(name, ["/bin/sh", "-c", look]).stdout in ("", b"")
    run.process.send_signal(signal.SIGTERM)
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (130, "interrupted")
    assert result["cause"].endswith(" SIGTERM")
    assert "zq9tellnobody"[::-1] in run.lines(0)


# --- hosts and the way to them -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "kind"),
    [("node01", "unplug"), pytest.param("node02", "freeze", marks=pytest.mark.soak)],
)
def test_a_host_that_falls_silent_is_the_cause(runner, host, kind):
    script = str(runner.script(SLEEP))
    run = runner.start("--host-timeout", "2", "-n", "3", "-ppn", "1", script)
    up(run, 3)
    runner.lab.fault(host, kind)
    try:
        result = run.finish()
    finally:
        runner.lab.heal(host)
    assert (result["exit_code"], result["ended_by"]) == (121, "host-lost")
    assert result["cause"].startswith(f"{host} was lost: ") and result["cause"].endswith(" 2 s")
    survivors = {h["name"]: h["survivors"] for h in result["hosts"]}
    assert survivors == {**dict.fromkeys(runner.lab.hosts, 0), host: None}
    assert result["again"].startswith(f"ipexctl run -x {host} -f ")
    assert result["again"].endswith(f" -n 2 -ppn 1 {script}")
    assert runner.gone(run.run_id, seconds=10) == {}


def test_a_network_that_stops_for_less_than_the_timeout_does_not_end_a_run(runner):
    run = runner.start("--host-timeout", "20", "-n", "3", str(runner.script(COUNT)))
    up(run, 3)
    for name in ("node01", "node03"):
        runner.lab.fault(name, "unplug")
    runner.lab.fault("node02", "no-sshd")
    time.sleep(1)
    for name in runner.lab.hosts:
        runner.lab.heal(name)
    assert run.finish()["exit_code"] == 0
    assert len(run.lines()) == 3 * 40


# --- the controller ------------------------------------------------------------------------------


def test_a_reader_that_leaves_ends_the_run(runner):
    process = subprocess.Popen(
        runner.argv("-n", "3", str(runner.script(COUNT + SLEEP))),
        cwd=runner.folder, env=runner.environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    runner.started.append(process)
    assert process.stdout.readline().endswith("| up\n")
    process.stdout.close()
    assert process.wait(30) == 130
    said = process.stderr.read()
    assert "a closed stdout" in said
    assert "hosts: 0" in said


@pytest.mark.soak
def test_output_faster_than_its_reader_waits_on_the_hosts(runner):
    """200 MB against a reader that is asleep at first: the controller stays small."""
    script = runner.script(
        "import sys\nfor i in range(200000): sys.stdout.write('x' * 999 + '\\n')\n"
    )
    process = subprocess.Popen(
        runner.argv("-n", "1", str(script)),
        cwd=runner.folder, env=runner.environment(), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    runner.started.append(process)
    time.sleep(3)
    with open(f"/proc/{process.pid}/status") as f:
        resident = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    assert resident < 150 * 1024
    assert process.stdout.read().count(b"\n") == 200000
    assert process.wait(60) == 0
