"""This machine without a hostfile and without an install. Needs neither root nor torch."""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli import ipexctl
from tests.processes import gone

REPO = Path(__file__).parents[2]
SCRIPT = (
    "import os, sys, torch\n"
    "names = ('RANK', 'WORLD_SIZE', 'MASTER_ADDR')\n"  # in one write: two ranks share the line
    "sys.stdout.write(' '.join([os.environ[n] for n in names] + [sys.prefix]) + '\\n')\n"
    "sys.exit(int(os.environ['RANK']) * int(sys.argv[1]))\n"
)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a home, a script, and a virtual environment with a stand-in for torch."""
    venv.create(tmp_path / "env", symlinks=True)
    site = next((tmp_path / "env/lib").glob("python3*")) / "site-packages"
    (site / "torch").mkdir()
    (site / "torch/__init__.py").write_text("")
    (tmp_path / "home").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text(SCRIPT)
    return tmp_path


def run(
    here: Path,
    *words: str,
    active: str,
    to: str = "",
    folder: str = "code",
    python: str = "",
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """`to`: where sh sends its stdout instead of to us. `python`: what ipexctl itself runs in.

    With these, or with more variables, it is a process of its own.
    """
    kept = {n: v for n, v in os.environ.items() if n in ("LANG", "TMPDIR")}
    env = {"HOME": str(here / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO), **kept}
    env |= {"VIRTUAL_ENV": active, **more}
    argv = ["run", "-n", "2", *words]
    if not (to or python or more):
        return ipexctl(*argv, cwd=here / folder, env=env)
    argv = [python or sys.executable, "-m", "ipexctl", *argv]
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {to}', "sh", *argv], env=env, timeout=60,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=here / folder,
    )  # fmt: skip


def test_the_active_environment_is_used_and_named(here):
    done = run(here, "-v", "train.py", "0", active=str(here / "env"))
    assert (done.returncode, sorted(done.stdout.splitlines())) == (
        0,
        [f"localhost r0{r} | {r} 2 127.0.0.1 {here}/env" for r in (0, 1)],
    )
    assert done.stderr.count(f"{here}/env/bin/python3") == 1
    assert "without MPI" in done.stderr
    assert "hosts: 0" in done.stderr


def test_the_environment_that_ipexctl_is_in_is_used_where_no_other_has_torch(here):
    python = str(here / "env/bin/python")
    path = f"{REPO}:{sysconfig.get_path('purelib')}"
    done = run(here, "train.py", "0", active="", python=python, PYTHONPATH=path)
    assert (done.returncode, done.stderr.count(f"so {here}/env/bin/python3 is used")) == (0, 1)


def test_a_run_goes_on_when_the_disk_of_its_stdout_is_full(here):
    done = run(here, "train.py", "0", active=str(here / "env"), to=">/dev/full")
    assert (done.returncode, done.stderr.count(f"stdout: {os.strerror(errno.ENOSPC)}")) == (0, 1)
    assert "done: 2 ranks " in done.stderr


@pytest.mark.parametrize("ui", ["auto", "json"])
def test_a_run_without_stdout_is_a_run(here, ui):
    done = run(here, "--ui", ui, "train.py", "0", active=str(here / "env"), to=">&-")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_what_stdout_cannot_spell_ends_no_run(here):
    (here / "code/train.py").write_text("print('\\u4f60')\n")
    to_latin = {"PYTHONIOENCODING": "latin-1"}
    done = run(here, "train.py", "0", active=str(here / "env"), **to_latin)
    assert (done.returncode, "localhost r00 | ?\n" in done.stdout) == (0, True)


def test_a_folder_with_an_escape_code_in_its_name_does_not_reach_the_terminal(here):
    folder, env = "two\x1b[31m\nlines", str(here / "env")
    (here / "code").rename(here / folder)
    done = run(here, "-v", "train.py", "0", active=env, folder=folder)
    assert "lines (1 file, " in done.stderr
    assert (done.returncode, "\x1b" in done.stdout + done.stderr) == (0, False)


def test_a_terminal_without_escape_codes_is_shown_none(here):
    words, env = ("--ui", "stream", "train.py", "0"), str(here / "env")
    assert "\x1b" in run(here, *words, active=env, TERM="xterm").stdout
    assert "\x1b" not in run(here, *words, active=env, TERM="dumb").stdout


def test_a_rank_has_its_hosts_own_proxy_which_what_starts_it_has_not(here):
    (here / "code/own.py").write_text(
        "import os\n"
        "with open('/proc/%d/environ' % os.getppid()) as f:\n"
        "    above = dict(line.partition('=')[::2] for line in f.read().split('\\0'))\n"
        "names = ('http_proxy', 'NO_PROXY', 'HF_HOME', 'OTHER', 'LANG', 'IPEXCTL_RUN_ID')\n"
        "print([n in os.environ for n in names], [n in above for n in names], flush=True)\n"
        "print(os.environ['HF_HOME'], flush=True)\n"
    )
    words = ("-n", "1", "--env", "HF_HOME=/given", "own.py")
    more = {"http_proxy": "http://me:word@proxy:1", "NO_PROXY": "x", "OTHER": "x", "LANG": "C"}
    done = run(here, *words, active=str(here / "env"), HF_HOME="/own", **more)
    rank, above = [True, True, True, False, True, True], [False, False, False, False, True, True]
    assert f"| {rank} {above}\n" in done.stdout, done.stderr
    assert "| /given\n" in done.stdout
    assert "word" not in done.stderr


@pytest.mark.parametrize("word", ["--json", "--ui=json"])
def test_a_plan_is_json_where_the_run_would_be(here, word):
    done = run(here, "--explain", word, "train.py", "0", active=str(here / "env"))
    assert (done.returncode, "schema_version" in json.loads(done.stdout)) == (0, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--ranks 9", "--ranks"),
        ("-i (", "-i '('"),
        ("--fetch /etc/*", "--fetch '/etc/*'"),
    ],
)
def test_what_a_run_refuses_is_refused_by_its_plan(here, words, said):
    done = run(here, "--explain", *words.split(), "train.py", "0", active=str(here / "env"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ipexctl: {said}")


def test_what_a_run_warns_about_in_the_script_its_plan_does_too(here):
    (here / "code/.gitignore").write_text("mine.py\n")
    (here / "code/mine.py").write_text("")
    (here / "code/imports.py").write_text("import mine\n")
    done = run(here, "--explain", "imports.py", active=str(here / "env"))
    assert done.returncode == 0
    assert "imports.py:1: module mine" in done.stderr
    assert "preflight" not in done.stdout


@pytest.mark.parametrize("how", [[], ["--explain"]])
def test_ranks_asked_for_after_the_script_are_told_of(here, how):
    done = run(here, *how, "train.py", "--ppn", "6", active=str(here / "env"))
    meant = " ".join(["ipexctl run -n 2", *how, "--ppn 6 train.py"])
    note = f"--ppn 6 goes to train.py; ipexctl's own options go before the script: {meant}\n"
    assert done.stderr.count(note) == 1
    done = run(here, "--", "train.py", "--ppn", "6", active=str(here / "env"))
    assert "goes to" not in done.stderr


def test_the_command_to_run_again_has_them_before_the_script(here):
    done = run(here, "train.py", "--ppn", "6", "--lr", "1", active=str(here / "env"))
    again = [line for line in done.stderr.splitlines() if line.startswith("  again:")]
    assert again == ["  again: ipexctl run -n 2 --ppn 6 train.py --lr 1"]
    (here / "hosts").write_text("a ansible_connection=local\nb address=127.0.0.1 port=1\n")
    hosts = ("-f", str(here / "hosts"))
    for how in ([], ["--explain"]):
        done = run(here, *hosts, *how, "train.py", "--ppn", "6", active=str(here / "env"))
        meant = " ".join(["ipexctl run -x b -n 2", *hosts, *how, "--ppn 6 train.py"])
        assert f"{meant}   # without b\n" in done.stderr


def test_a_file_that_an_ignore_file_leaves_out_is_named_with_the_line_and_the_way_back(here):
    for name, text in {
        "conf/train.yaml": "lr: 1\n", ".gitignore": "# mine\nconf/\n",
        "reads.py": "print(open('conf/train.yaml').read())\n",
    }.items():  # fmt: skip
        (here / "code" / name).parent.mkdir(exist_ok=True)
        (here / "code" / name).write_text(text)
    done = run(here, "reads.py", active=str(here / "env"))
    assert done.returncode == 1
    assert "data push" not in done.stderr
    assert (
        f"conf/ in .gitignore:2\n  try: printf '%s\\n' '!/conf/' >> {here}/code/.ipexctlignore"
    ) in done.stderr
    (way,) = [line[6:] for line in done.stderr.splitlines() if line.startswith("  try: printf")]
    subprocess.run(["sh", "-c", way], check=True)
    done = run(here, "reads.py", active=str(here / "env"))
    assert (done.returncode, "lr: 1" in done.stdout) == (0, True), done.stderr


NANOGPT = """import os, pickle
folder = os.path.join("data", "shakespeare_char")
tokens = sum(len(open(f"{folder}/{name}.bin", "rb").read()) for name in ("train", "val"))
vocabulary = 50304
if os.path.exists(f"{folder}/meta.pkl"):
    vocabulary = pickle.load(open(f"{folder}/meta.pkl", "rb"))["vocab_size"]
print("tokens", tokens, "vocabulary", vocabulary)
"""


def test_a_script_finds_the_small_data_that_git_ignores(here):
    """As nanoGPT, which takes another vocabulary where one file of three is missing."""
    data = here / "code/data/shakespeare_char"
    data.mkdir(parents=True)
    for name, content in {
        "train.bin": bytes(1000), "val.bin": bytes(100),
        "meta.pkl": pickle.dumps({"vocab_size": 65}),
    }.items():  # fmt: skip
        (data / name).write_bytes(content)
    (here / "code/.gitignore").write_text("*.bin\n*.pkl\n*.pt\n")
    (here / "code/ckpt.pt").write_bytes(bytes(100))
    (here / "code/nanogpt.py").write_text(NANOGPT)
    done = run(here, "nanogpt.py", active=str(here / "env"))
    assert (done.returncode, done.stdout.count("tokens 1100 vocabulary 65\n")) == (0, 2), (
        done.stderr
    )
    assert done.stderr.count(".gitignore: 1 file (100 bytes): ckpt.pt") == 1
    assert done.stderr.count(", 3 of them data that .gitignore names): ") == 1
    again = run(here, "nanogpt.py", active=str(here / "env"))
    assert "of them data" not in again.stderr, "nothing is sent"


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_wrapper_that_was_killed_is_told_of_before_what_had_started_it(here, count):
    text = (
        "import os, time\nif os.environ['RANK'] == '0': os.kill(os.getppid(), 9)\ntime.sleep(60)\n"
    )
    (here / "code/killed.py").write_text(text)
    done = run(here, "-n", count, "killed.py", active=str(here / "env"))
    assert done.returncode == 137, done.stderr
    assert re.search(r"rank 0 on localhost .*killed", done.stderr)


@pytest.mark.parametrize("gone", [".ipexctl", "."])
def test_a_folder_that_goes_during_the_run_costs_what_is_fetched_and_no_more(here, gone):
    text = "import shutil, sys\nshutil.rmtree(sys.argv[1])\nsys.exit(7)\n"
    (here / "code/tidy.py").write_text(text)
    words = ("-n", "1", "--fetch", "out", "tidy.py", str(here / "code" / gone))
    done = run(here, *words, active=str(here / "env"))
    assert done.returncode == 7, done.stderr
    (outputs,) = (text for text in done.stderr.splitlines() if "outputs: " in text)
    assert f"({os.strerror(errno.ENOENT)})" in outputs
    assert re.search(r"rank 0 on localhost .*code 7", done.stderr)


def test_fetched_files_go_where_they_are_asked_to_and_that_is_said_last(here):
    (here / "code/save.py").write_text(
        "import os\nos.makedirs('out', exist_ok=True)\n"
        "open('out/r' + os.environ['RANK'], 'w').write('1')\n"
    )
    words = ("--outputs", "out", "-o", str(here / "mine"), "save.py")
    done = run(here, *words, active=str(here / "env"))
    assert done.stderr.splitlines()[-1] == "  outputs: ../mine (2 files, 2 bytes)"
    assert sorted(p.name for p in (here / "mine/out").iterdir()) == ["r0", "r1"]
    done = run(here, *words, active=str(here / "env"))  # again: they are replaced
    assert (done.returncode, len(list((here / "mine/out").iterdir()))) == (0, 2), done.stderr
    for refused in (("-o", "x", "save.py"), ("--outputs", "out", "-o", "save.py", "save.py")):
        assert run(here, *refused, active=str(here / "env")).returncode == 2
    (here / "mine/out/r0").unlink()
    (here / "mine/out/r0").mkdir()
    done = run(here, *words, active=str(here / "env"))  # what cannot be put there is not lost
    assert (done.returncode, "rest is" in done.stderr) == (0, True), done.stderr
    (kept,) = (here / "code/.ipexctl/runs").glob("*/outputs/out/r0")
    assert kept.read_text() == "1"


def test_a_folder_that_cannot_be_made_is_said_to_cost_what_is_fetched(here):
    (here / "code/.ipexctl").write_text("")
    done = run(here, "--fetch", "out", "train.py", "0", active=str(here / "env"))
    assert done.returncode == 0, done.stderr
    assert "outputs: not fetched" in done.stderr


@pytest.mark.parametrize(
    ("file", "tries"),
    [
        ("", ["init HOST HOST ... writes a hostfile here"]),
        ("hosts", ["run -n 2 -f hosts train.py 0   # on the hosts of hosts"]),
        ("my-cluster.lst", ["run -n 2 -f my-cluster.lst train.py 0   # on the hosts of my-clu"]),
        ("notes", ["init HOST HOST ... writes a hostfile here"]),
    ],
)
def test_without_torch_anywhere_the_next_step_names_hosts_or_installs_here(here, file, tries):
    if file:
        (here / "code" / file).write_text("node01\nnode02\n")
    done = run(here, "train.py", "0", active=str(here / "nowhere"))
    if done.returncode == 0:
        pytest.skip("python3 of this machine has torch")
    assert (done.returncode, done.stdout) == (123, ""), done.stderr
    assert "(-f, -H), so" in done.stderr
    hint = done.stderr.partition("  try: ")[2].splitlines()
    wanted = [*tries, "install   # to use this machine"]
    assert len(hint) == len(wanted)
    said = [line.strip().removeprefix("# ") for line in hint]
    assert all(h.startswith(f"ipexctl {w}") for h, w in zip(said, wanted, strict=True))


def test_this_machine_by_name_is_what_was_meant(here):
    (here / "code/localhost").write_text("localhost ansible_connection=local\n")
    done = run(here, "-f", "localhost", "train.py", "0", active=str(here / "nowhere"))
    if done.returncode == 0:
        pytest.skip("python3 of this machine has torch")
    assert "try: ipexctl install -f localhost" in done.stderr
    assert "(-f, -H), so" not in done.stderr


# --- what the script is told before it starts ----------------------------------------------------

TRAINER = "from transformers import HfArgumentParser, TrainingArguments\n"
REVIEWED = (
    TRAINER + "import torch, helpers\nHfArgumentParser((TrainingArguments,))\n"
    "if helpers.ready:\n    import intel_extension_for_pytorch\n"
)


def packages(site: Path) -> None:
    """A stand-in for transformers, which is there by name and version."""
    names = ("HfArgumentParser", "TrainingArguments")
    (site / "transformers.py").write_text("".join(f"{n} = lambda *_: None\n" for n in names))
    (site / "transformers-5.23.0.dist-info").mkdir()


def preflight(done: subprocess.CompletedProcess[str]) -> list[str]:
    found = [line.partition("preflight: ") for line in done.stderr.splitlines()]
    told = [line for _, sign, line in found if sign]
    return [line for line in told if not line.startswith("LOAD-004")]  # runs of other tests


def test_arguments_that_transformers_dropped_are_told_before_the_ranks_start(here):
    packages(next((here / "env/lib").glob("python3*")) / "site-packages")
    (here / "code/train.py").write_text(REVIEWED)
    (here / "code/helpers.py").write_text("ready = False\n")
    done = run(here, "train.py", "--no_cuda", "--bf16", active=str(here / "env"))
    removed, needs_gpu = preflight(done)
    assert done.returncode == 0
    assert removed.startswith("train.py: --no_cuda ") and removed.endswith("; use --use_cpu")
    assert " 5.0, " in removed and " 5.23.0;" in removed
    assert needs_gpu.startswith("train.py: --bf16 without --use_cpu ")
    assert needs_gpu.endswith("; use --bf16 --use_cpu")
    assert preflight(run(here, "train.py", "--use_cpu", active=str(here / "env"))) == []


def test_an_import_that_the_installed_environment_lacks_is_told(here):
    env = here / "home/.ipexctl/envs/0123456789abcdef"
    env.parent.mkdir(parents=True)
    (here / "env").rename(env)
    (env.parent.parent / "current").symlink_to(env)
    (here / "code/train.py").write_text("import torch, helpers\nimport numpy\n")
    (here / "code/helpers.py").write_text("import torch_ccl\n")
    lines = [
        "helpers.py:1: torch_ccl was discontinued and is not installed on localhost; "
        "use the backend "
        '"gloo", or install it with `ipexctl install --ipex 1.11`',
        "train.py:2: not installed on localhost: numpy; try: printf '\\n%s\\n' numpy >> "
        "requirements.txt && ipexctl install -r requirements.txt",
    ]
    done = run(here, "--force", "train.py", active="")
    assert (done.returncode, [n for n in preflight(done) if n in lines]) == (1, lines)
    (next(env.glob("lib/python3*/site-packages")) / "editable.pth").write_text("/somewhere\n")
    done = run(here, "--force", "train.py", active="")
    assert [n for n in preflight(done) if "installed on" in n] == []


def test_a_secret_is_not_inherited_and_no_core_dump_can_hold_it(here):
    (here / "code/secret.py").write_text(
        "import os, resource\n"
        "pid, words = os.getppid(), ''\n"
        "while '-ISc' not in words:  # up to the agent\n"
        "    with open('/proc/%s/stat' % pid) as f: pid = f.read().split()[3]\n"
        "    with open('/proc/%s/cmdline' % pid) as f: words = f.read()\n"
        "with open('/proc/%s/environ' % pid) as f: print('TOKEN' in f.read())\n"
        "print(os.environ['TOKEN'][::-1], resource.getrlimit(resource.RLIMIT_CORE)[0])\n"
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        shown = []
        for option in ("--secret-env", "--env"):
            words = ("-n", "1", option, "TOKEN", "secret.py")
            done = run(here, *words, active=str(here / "env"), TOKEN="terces")
            assert done.returncode == 0, done.stderr
            shown += [line.partition("| ")[2] for line in done.stdout.splitlines()]
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    # the agent of this machine inherits what is no secret
    assert shown == ["False", "secret 0", "True", f"secret {hard}"]


@pytest.mark.parametrize("unread", [False, True])
def test_the_third_ctrl_c_ends_the_command_whatever_stands_still(here, unread):
    """Its host, whose agent is stopped and ends once it goes on; and the reader of its output."""
    text = "'x' * 1000 + '\\n'" if unread else "'up\\n'"
    (here / "code/stays.py").write_text(
        f"import sys, time\nsys.stdout.write({text} * {2000 if unread else 1})\n"
        "sys.stdout.flush()\ntime.sleep(600)\n"
    )
    env = {"HOME": str(here / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO)}
    process = subprocess.Popen(
        [sys.executable, "-m", "ipexctl", "run", "-n", "1", "stays.py"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        cwd=here / "code", env={**env, "VIRTUAL_ENV": str(here / "env")},
    )  # fmt: skip
    assert process.stdout.read(2)
    time.sleep(1.0)  # what is not read fills the pipe
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
    agent = int(found.stdout.split()[0])
    os.kill(agent, signal.SIGSTOP)
    try:
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        began = time.monotonic()
        assert process.wait(20) == 130
        assert time.monotonic() - began < 10, "1.5 s, and what a busy machine adds"
    finally:
        process.kill()
        with suppress(ProcessLookupError):  # two signals that come as one: the second kills it
            os.kill(agent, signal.SIGCONT)
    assert gone(agent, 30)
