"""The outermost edge, as a user meets it: two streams and an exit code, often of a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ipexctl
from ipexctl.errors import (
    EXIT_BUG,
    EXIT_FAILED,
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NO_READER,
    EXIT_OK,
    EXIT_UNREACHABLE,
)
from ipexctl.run.watch.run_watchers import count_interrupts
from tests.cli import Ended, command_tree
from tests.cli import ipexctl as run_here

ROOT = Path(__file__).parent.parent


def _ipexctl(*args: str, home: Path) -> Ended:
    return run_here(*args, cwd=ROOT, env=_environ(home))


def _python(*args: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=ROOT,
        env=_environ(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def _environ(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "SHELL": "/bin/bash",
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }


def _commands() -> dict[str, str]:
    """Name -> first line of help, of every command that is not hidden."""
    return {
        path: (command.help or "").partition("\n")[0]
        for path, command in command_tree()
        if path and " " not in path and not command.hidden
    }


def test_version(tmp_path: Path) -> None:
    done = _ipexctl("--version", home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        EXIT_OK,
        f"ipexctl {ipexctl.__version__}\n",
        "",
    )


def test_help_lists_every_command_with_a_sentence(tmp_path: Path) -> None:
    def listed(*words: str) -> set[str]:
        done = _ipexctl(*words, home=tmp_path)
        assert done.returncode == EXIT_OK
        return {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}

    every = listed("--help", "all")
    assert [name for name in _commands() if name not in every] == []
    rare = {"schema", "support", "bundle", "migrate", "stacks"}
    assert {name for name in _commands() if name not in listed("--help")} == rare
    assert [name for name, sentence in _commands().items() if not sentence] == []


def test_every_command_has_its_own_help(tmp_path: Path) -> None:
    shown = {name: _ipexctl(name, "--help", home=tmp_path) for name in _commands()}
    bad = {name: done.stderr for name, done in shown.items() if done.returncode != EXIT_OK}
    assert bad == {}
    assert [n for n, done in shown.items() if f"Usage: ipexctl {n}" not in done.stdout] == []


def test_every_option_and_argument_says_what_it_takes() -> None:
    found = [(path, p) for path, command in command_tree() for p in command.params if p.name]
    assert len(found) > 150
    bare = [
        (name, p.name)
        for name, p in found
        if not p.help
        or p.help.split()[0].rstrip(",") in ("Of", "As", "Whose", "Whom")
        or not (p.metavar or getattr(p, "is_flag", False) or getattr(p, "count", False))
    ]
    assert bare == []


@pytest.mark.parametrize("group", ["", "env", "data", "lab"])
def test_the_sentence_of_a_command_is_not_cut(tmp_path: Path, group: str) -> None:
    done = run_here(*group.split(), "--help", cwd=ROOT, env={**_environ(tmp_path), "COLUMNS": "80"})
    assert done.returncode == 0
    assert "..." not in done.stdout.replace("[ARGS]...", "")


def test_h_is_help_everywhere(tmp_path: Path) -> None:
    paths = [tuple(path.split()) for path, _ in command_tree()]
    assert {(), ("run",), ("env", "ls"), ("lab", "up")} <= set(paths)
    for path in paths:
        asked = [_ipexctl(*path, word, home=tmp_path) for word in ("-h", "--help")]
        assert [(d.returncode, d.stdout) for d in asked] == [(EXIT_OK, asked[1].stdout)] * 2, path


@pytest.mark.parametrize("words", [("-h",), ("--help", "all")])
def test_help_behind_the_script_is_the_scripts_own(words: tuple[str, ...], tmp_path: Path) -> None:
    done = _ipexctl("run", "-f", "missing", "train.py", *words, home=tmp_path)
    assert (done.returncode, done.stdout) == (EXIT_INPUT, "")


def test_completion_can_be_shown_and_installed(tmp_path: Path) -> None:
    shown = _ipexctl("--show-completion", "bash", home=tmp_path)
    assert shown.returncode == EXIT_OK
    assert "_IPEXCTL_COMPLETE=complete_bash" in shown.stdout
    installed = _ipexctl("--install-completion", "bash", home=tmp_path)
    assert installed.returncode == EXIT_OK
    assert list(tmp_path.rglob("*ipexctl*")) != []


WRONG = [
    pytest.param(("no-such-command",), "no-such-command", id="a command that does not exist"),
    pytest.param(("doctor", "--no-such-option"), "--no-such-option", id="an unknown option"),
    pytest.param(("doctor", "-f", "no-such-file"), "no-such-file", id="a hostfile not there"),
    pytest.param(("doctor", "-H", "a:2,a"), "'a' is listed twice", id="a host listed twice"),
    pytest.param(
        ("doctor", "-H", "-oProxyCommand=touch hacked"), "-oProxyCommand", id="a host as an option"
    ),
    pytest.param(
        ("doctor", "-H", "a@-oProxyCommand=touch hacked"), "-oProxyCommand", id="after a user name"
    ),
    pytest.param(("doctor", "-f", "README.md", "-H", "a"), "-f", id="hosts given twice"),
    pytest.param(("run", "-f", "no-such-file", "train.py"), "no-such-file", id="run without hosts"),
    pytest.param(("run", "x" * 300), "there is no script xxx", id="a script of too long a name"),
    pytest.param(("run", "-m", ""), "-m: the name of a module", id="a module without a name"),
    pytest.param(("run", "--ports", "", "setup.py"), "--ports : expected a range", id="no ports"),
    pytest.param(("run", "--ui", "foo", "--json", "x.py"), "--ui foo", id="no such view, or JSON"),
    pytest.param(("run", "--ui", "foo", "--explain", "x.py"), "--ui foo", id="no such view"),
    pytest.param(("data", "push", "x" * 300), "x is not a folder", id="data of too long a name"),
    pytest.param(("install", "-f", "no-such-file"), "no-such-file", id="install without hosts"),
]


@pytest.mark.parametrize(("args", "named"), WRONG)
def test_wrong_input_is_explained_on_stderr_and_ends_with_2(
    args: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    done = _ipexctl(*args, home=tmp_path)
    assert done.returncode == EXIT_INPUT
    assert '"errors"' in done.stdout if "--json" in args else done.stdout == ""
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert not (ROOT / "hacked").exists()


def test_a_script_that_is_not_sent_ends_the_run_before_any_host_is_asked(tmp_path: Path) -> None:
    script = tmp_path / "project" / "try.py"
    script.parent.mkdir()
    script.touch()
    (script.parent / ".gitignore").write_text("try.py\n")
    done = _ipexctl("run", "-H", "nowhere.invalid", str(script), home=tmp_path / "home")
    assert (done.returncode, done.stdout, done.slug) == (EXIT_INPUT, "", "script-left-out")
    assert " try.py " in done.errors[0].what and " try.py in " in done.errors[0].why


@pytest.mark.parametrize(
    ("to", "code", "said"),
    [
        (">/dev/full", EXIT_FAILED, "ipexctl: stdout: No space left on device\n"),
        (">&-", EXIT_OK, ""),
        ("<&- >&- 2>&-", EXIT_OK, ""),
        ("| true", EXIT_NO_READER, ""),
        ("2>&1 | true", EXIT_NO_READER, ""),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["stacks", "explain disk-full"])
def test_a_stdout_that_takes_nothing_is_no_bug_of_ours(
    to: str, code: int, said: str, unbuffered: str, command: str, tmp_path: Path
) -> None:
    line = f"{sys.executable} -m ipexctl {command} {to}"
    script = f"({line}; exit ${{PIPESTATUS[0]}})"
    done = subprocess.run(
        ["bash", "-c", script if "|" in to else line],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize("words", ["explain foo", "hosts -f missing"])
def test_a_stderr_that_takes_nothing_does_not_change_the_exit_code(words, tmp_path: Path) -> None:
    line = f"{sys.executable} -m ipexctl {words} 2>/dev/full"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, timeout=60)
    assert done.returncode == EXIT_INPUT


@pytest.mark.parametrize(
    "spelling",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_a_stdout_that_cannot_spell_it_shows_a_question_mark(
    spelling: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ipexctl", "doctor", "-H", "nowhere.invalid"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **spelling},
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (EXIT_UNREACHABLE, False)
    assert b"0 of 1 host ready" in done.stdout


# Every way out of the program, reached by a command made for it.
_PLANTED = """
import sys
import ipexctl.cli as cli
from ipexctl.__main__ import program
from ipexctl.errors import InputError, NothingFits, Unreachable

@cli.app.command()
def planted() -> None:
    {body}

sys.argv = ["ipexctl", "planted"]
program()
"""
WAYS_OUT = [
    (
        "raise InputError('line 3 is wrong', why='a\\nb', hint='ipexctl doctor')",
        EXIT_INPUT,
        "ipexctl: line 3 is wrong\n  why: a\n       b\n  try: ipexctl doctor\n",
    ),
    ("raise NothingFits('no stack fits')", 3, "ipexctl: no stack fits\n"),
    ("raise Unreachable('n1 is down')", 4, "ipexctl: n1 is down\n"),
]


@pytest.mark.parametrize(("body", "code", "message"), WAYS_OUT)
def test_an_explained_error_is_one_message_and_its_own_code(
    body: str, code: int, message: str, tmp_path: Path
) -> None:
    done = _python("-c", _PLANTED.format(body=body), home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", message)


def test_json_carries_the_slug_of_an_error(tmp_path: Path) -> None:
    plain = run_here("env", "ls", "-f", "gone.txt", cwd=tmp_path)
    done = run_here("env", "ls", "-f", "gone.txt", "--json", cwd=tmp_path)
    (error,) = json.loads(done.stdout)["errors"]
    assert (error["slug"], error["exit_code"]) == (done.slug, done.returncode)
    assert error["what"] in done.stderr
    assert (plain.stdout, plain.slug) == ("", done.slug)


def test_a_bug_of_ours_shows_its_traceback_and_ends_with_70(tmp_path: Path) -> None:
    done = _python("-c", _PLANTED.format(body="1 / 0"), home=tmp_path)
    assert (done.returncode, done.stdout) == (EXIT_BUG, "")
    assert "ZeroDivisionError" in done.stderr
    assert "bug in ipexctl" in done.stderr


def test_an_interrupt_ends_with_130_and_no_traceback(tmp_path: Path) -> None:
    done = _python("-c", _PLANTED.format(body="raise KeyboardInterrupt"), home=tmp_path)
    assert (done.returncode, done.stdout) == (EXIT_INTERRUPTED, "")
    assert "Traceback" not in done.stderr


# A Ctrl-C while this module is imported.
_INTERRUPTED = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["ipexctl", "ps"]
from ipexctl.__main__ import program
sys.exit(program())
"""


@pytest.mark.parametrize(
    "name", ["ipexctl.cli", "typer", "ipexctl.local.environment", "ipexctl.run.jobs.ps"]
)
def test_an_interrupt_while_modules_are_imported_ends_with_130_and_no_traceback(
    name: str, tmp_path: Path
) -> None:
    done = _python("-c", _INTERRUPTED.format(name=name), home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (EXIT_INTERRUPTED, "", "")


_THREAD = "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()"


@pytest.mark.parametrize(("thread", "lines"), [(_THREAD, "thread\n"), ("pass", "")])
def test_the_program_exits_after_its_threads_and_atexit_functions(thread, lines, tmp_path) -> None:
    body = (
        "import atexit, threading, time; print('command'); atexit.register(print, 'atexit'); "
        f"{thread}; raise SystemExit(3)"
    )
    done = _python("-c", _PLANTED.format(body=body), home=tmp_path)
    assert (done.returncode, done.stdout) == (3, f"command\n{lines}atexit\n")


@pytest.mark.parametrize(("handler", "counted"), [(signal.SIG_DFL, 1), (signal.SIG_IGN, 0)])
def test_a_run_under_nohup_outlives_its_terminal(handler, counted):
    before = signal.signal(signal.SIGHUP, handler)
    try:
        with count_interrupts() as interrupts:
            interrupts.armed = True
            os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.count == counted
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_folder_that_is_gone_is_reported_also_as_json(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir {gone}; exec "$@"'
    argv = ["sh", "-c", script, "sh", sys.executable, "-m", "ipexctl", "config"]
    argv += ["--json"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(argv, cwd=gone, env=env, capture_output=True, text=True)
    assert done.returncode == EXIT_INPUT
    assert [e["slug"] for e in json.loads(done.stdout)["errors"]] == ["folder-gone"]
    assert done.stderr.startswith("ipexctl: ")


def test_a_folder_that_cannot_be_made_is_an_error_of_that_folder(tmp_path):
    (tmp_path / "ipexctl.toml").write_text("hostfile = 'hosts'\n")
    (tmp_path / "hosts").write_text("h1\n")
    done = run_here(
        "config", "--accept", cwd=tmp_path, env={**os.environ, "XDG_STATE_HOME": "/dev/null/x"}
    )
    assert (done.returncode, done.slug) == (2, "file-failed")
    assert done.errors[0].what.startswith("/dev/null/x: ")
