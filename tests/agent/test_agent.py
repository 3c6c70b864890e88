"""The agent over a real child process: noise, no python, errors, ends, torn frames, two calls."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.common.frames import HEAD
from ipexctl.common.reach_answers import HostsTried, HostTried
from ipexctl.errors import HostFailed, Unreachable
from ipexctl.facts import host_facts
from ipexctl.facts.facts import Facts
from ipexctl.install.install import _with_named
from ipexctl.inventory.inventory import Host
from ipexctl.machines import agent_sources, agent_start
from ipexctl.machines.agent import agent_failure
from ipexctl.machines.agent_start import command_line, start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.suggested_commands import other_pythons
from ipexctl.machines.wire import transport
from ipexctl.machines.wire.frames import BadFrame, Decoder, Frame
from ipexctl.machines.wire.transport import Channel, LocalTransport, PipeChannel
from tests import made
from tests.processes import gone
from tests.refused import refused

HERE = Host("here", local=True)


class Through:
    """A login shell that does something around our command."""

    def __init__(self, before: str, env: str = "") -> None:
        self.before, self.env = before, env

    def open(self, host: Host, command: str, timeout: float) -> Channel:
        return PipeChannel(("/bin/sh", "-c", f"{self.before}; {self.env} {command}"))

    def close(self) -> None:
        return None


# --- who answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [
        "echo Welcome",
        "printf 'no newline at the end'",
        "printf '\\000\\377\\n\\n'; echo ipexctl0123-py",
        "head -c 300000 /dev/zero | tr '\\0' x",
        "echo to stderr >&2",
    ],
)
def test_what_start_up_files_print_does_no_harm(noise):
    with closing(start_host_agent(Through(noise), HERE)) as agent:
        assert (agent.hello.kind, probe_facts(agent).agent) == ("python", "python")


@pytest.fixture
def impatient(monkeypatch):
    """What does not end by itself is killed at once."""
    monkeypatch.setattr(PipeChannel, "patience", 0.1)


def test_a_shell_that_never_stops_printing_is_given_up(impatient):
    with refused("login-shell-noisy"):
        start_host_agent(Through("head -c 2000000 /dev/zero | tr '\\0' x"), HERE)


def test_a_shell_that_ends_first_is_told_with_its_own_words():
    with refused("session-ended", "exit code 3", "this account is locked") as caught:
        start_host_agent(Through("echo this account is locked >&2; exit 3"), HERE)
    assert type(caught.value) is HostFailed


def test_a_shell_that_hangs_ends_at_the_deadline(impatient):
    with refused("login-no-answer") as caught:
        start_host_agent(Through("exec sleep 30 <&-"), HERE, timeout=0.5)
    assert type(caught.value) is Unreachable


def bare(home: Path, script: str = "") -> Facts:
    """What a login finds whose only Pythons are those of `script`; the machine's own are hidden."""
    tools = home / "tools"
    tools.mkdir(parents=True)
    for name in ("sh", "uname", "id", "cat", "df", "head"):
        (tools / name).symlink_to(f"/bin/{name}")
    if script:
        write_script(tools / "python3", script)
    line = command_line("mark")
    for here in ("/usr/bin/python3 ", "/usr/local/bin/python3 ", "/opt/*/bin/python3 "):
        line = line.replace(here, "")
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        env={"PATH": str(tools), "HOME": str(home)},
        input=agent_sources.boot_payload("mark", frozenset()),
        capture_output=True,
        timeout=60,
    )
    if b"\nmark-py\n" in done.stdout:
        return replace(made.facts("here"), agent="python")
    return host_facts.from_sh("here", done.stdout.partition(b"\nmark-sh\n")[2].decode())


def write_script(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_host_without_python_answers_through_plain_sh(tmp_path):
    facts = bare(tmp_path)
    assert (facts.agent, facts.uid, facts.home) == ("sh", os.getuid(), str(tmp_path))
    assert facts.cpu.cpus
    assert facts.tried == ()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo \"Command 'python3' not found, but * can be\" >&2; exit 127",
         "Command 'python3' not found, but * can be"),
        ("echo xcode-select: no developer tools; echo at all; exit 1",
         "xcode-select: no developer tools at all"),
        ("exit 3", "exit code 3"),
    ],
)  # fmt: skip
def test_what_is_called_python3_and_is_none_is_quoted(tmp_path, script, words):
    assert bare(tmp_path, script).tried == ((f"{tmp_path}/tools/python3", words),)


@pytest.mark.parametrize(
    "where",
    [
        "miniconda3/bin",
        "miniforge3/bin",
        "anaconda3/bin",
        ".pyenv/versions/3.11.4/bin",
        ".local/share/uv/python/cpython-3.11.4-linux/bin",
    ],
)
def test_a_python_outside_of_path_is_found(tmp_path, where):
    home = tmp_path / "my home"
    write_script(home / where / "python3", f'exec {sys.executable} "$@"')
    assert bare(home).agent == "python"


def test_a_python_in_opt_is_looked_for():
    assert "/opt/*/bin/python3" in agent_start.PYTHONS.split()


def test_a_python_that_hangs_is_passed_over_and_not_left_on_the_host(
    tmp_path, monkeypatch, impatient
):
    monkeypatch.setattr(agent_start, "_ASK", agent_start._ASK.replace(" 3 ", " 1 "))
    script = f"echo $$ >>{tmp_path}/pids; sleep 321 & echo $! >>{tmp_path}/pids; wait"
    hanging = write_script(tmp_path / "python3", script)
    host = replace(HERE, python=str(hanging))
    with closing(start_host_agent(LocalTransport(), host, timeout=3.0)) as agent:
        assert agent.hello.kind == "python"
        assert str(hanging) in agent.hello.passed
        assert agent.hello.started != str(hanging)
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 4  # it was started, and asked again
        assert all(map(gone, pids))


STUBS = ["echo use the module system >&2", "echo use the module system", "head -c 9 >/dev/null"]


@pytest.mark.parametrize("script", STUBS)
def test_what_ends_without_an_error_and_is_no_python_is_passed_over(tmp_path, script):
    stub = write_script(tmp_path / "python3", script)
    with closing(start_host_agent(LocalTransport(), HERE, python=str(stub))) as agent:
        assert agent.hello.kind == "python"
        assert agent.hello.started != str(stub)


def test_a_host_where_no_python_answers_has_failed_and_is_not_unreachable(
    tmp_path, monkeypatch, impatient
):
    hanging = write_script(tmp_path / "a" / "python3", "exec sleep 321")
    stub = write_script(tmp_path / "b" / "python3", "echo use the module system >&2")
    for path, slug in ((hanging, "python-no-answer"), (stub, "python-ended")):
        monkeypatch.setattr(agent_start, "PYTHONS", f"{path} {stub}")
        with refused(slug, path) as caught:
            start_host_agent(LocalTransport(), HERE, timeout=1.0)
        assert type(caught.value).exit_code == HostFailed.exit_code


@pytest.mark.parametrize("path", ["/x/$(id)/python3", "python3", "/x;id"])
def test_a_path_that_a_host_made_up_is_in_no_command(path, impatient):
    class MadeUp(LocalTransport):
        def open(self, host: Host, command: str, timeout: float) -> Channel:
            marker = command.rpartition(" ")[2]
            said = f"printf '\\n%s-try 7 %s\\n' {marker} '{path}'; exec sleep 60"
            return PipeChannel(("/bin/sh", "-c", said))

    with refused("login-no-answer") as caught:
        start_host_agent(MadeUp(), HERE, timeout=0.5)
    assert path not in caught.value.hint


def test_a_python_that_the_user_named_is_tried_first():
    with closing(start_host_agent(LocalTransport(), HERE, python=sys.executable)) as agent:
        assert agent.hello.python == sys.version_info[:3]


@pytest.mark.parametrize(
    "broken", ["exit 3", "echo Fatal Python error: init_fs_encoding >&2; exit 1", "kill -SEGV $$"]
)
def test_a_python_that_does_not_start_is_passed_over(tmp_path, broken):
    bad = tmp_path / "python3"
    bad.write_text(f"#!/bin/sh\n{broken}\n")
    bad.chmod(0o755)
    with closing(start_host_agent(LocalTransport(), HERE, python=str(bad))) as agent:
        assert (agent.hello.kind, agent.hello.path != str(bad)) == ("python", True)
        assert probe_facts(agent).agent == "python"


def test_a_python_without_zlib_is_passed_over(tmp_path):
    """Before it has read a byte of what is sent to it."""
    bad = tmp_path / "python3"
    start = "import sys; sys.modules['zlib'] = None; exec(sys.argv[1])"
    bad.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -c "{start}" "$@"\n')
    bad.chmod(0o755)
    agent = start_host_agent(LocalTransport(), HERE, python=str(bad))
    assert agent.hello.kind == "python"
    agent.close()
    assert b"zlib" in agent.channel.stderr()


def test_an_agent_that_breaks_off_while_it_boots_is_no_reason_to_try_another_python():
    """The next one would wait for what the first one has read."""
    channel = PipeChannel(("/bin/sh", "-c", command_line("mark")))
    channel.write(b"s=1/0\n")
    said = b"".join(iter(lambda: channel.read(100, 20), b""))
    assert re.fullmatch(rb"\nmark-try [0-9]+ /\S+\n", said)
    assert channel.exit_status(20) == 98
    assert b"ZeroDivisionError" in channel.stderr()
    channel.close()


@pytest.mark.parametrize("python", ["python3; true", "$(id)", "a b", "`id`", "'"])
def test_a_python_that_is_no_plain_path_is_refused(python):
    with pytest.raises(HostFailed, match="contains special characters"):
        command_line("mark", python)


def test_a_wrapper_is_a_python_and_so_is_what_it_starts(tmp_path):
    """Wherever that is, and whatever it is called."""
    real = tmp_path / "lib" / "interpreter"
    real.parent.mkdir()
    shutil.copy(Path(sys.executable).resolve(), real)
    wrapper = write_script(tmp_path / "python3", f'echo once >>{tmp_path}/starts; exec {real} "$@"')
    with closing(start_host_agent(LocalTransport(), HERE, python=str(wrapper))) as agent:
        assert (agent.hello.started, agent.hello.path) == (str(wrapper), str(real))
        assert (tmp_path / "starts").read_text() == "once\n"
        facts = probe_facts(agent)
        assert str(real) in [p.path for p in facts.pythons]
        assert str(wrapper) in [p.path for p in _with_named(facts, agent, str(wrapper)).pythons]
        assert list(other_pythons([replace(agent, host=replace(HERE, python=str(wrapper)))])) == []


def test_a_shell_that_lost_the_input_is_told_from_a_python_that_fails(tmp_path):
    with refused("startup-file-reads-input") as caught:
        start_host_agent(Through("read line"), HERE)
    assert "Python" in caught.value.why
    with refused("startup-file-reads-input"):
        start_host_agent(Through("exec </dev/null"), HERE)


# --- calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["facts.probe.nothing", "nowhere.facts", "nodot", "main.__init__"])
def test_an_unknown_operation_is_an_error_and_the_agent_lives_on(agent, op):
    with pytest.raises(HostFailed, match="here: ") as caught:
        agent.call(op)
    assert 'File "ipexctl/remote/main.py", line ' in caught.value.why
    assert probe_facts(agent).host == "here"


def test_two_calls_at_once_each_get_their_own_answer(agent):
    dead = [["dead", "127.0.0.1", 1]]
    one = agent.start("facts.read_reachability.connect", {"targets": dead})
    two = agent.start("connection.listeners.listen", {})
    answers: dict[int, Frame] = {}
    for frame in agent.frames(30.0):
        if "done" in frame.header:
            answers[frame.header["id"]] = frame
        if len(answers) == 2:
            break
    tried = HostsTried.read(answers[one].header["done"])
    assert tried == HostsTried([HostTried("dead", "Connection refused")], [])
    assert 0 < answers[two].header["done"]["port"] < 65536


def test_connections_are_tried_at_once_and_told_one_by_one(agent):
    port = agent.call("connection.listeners.listen").done["port"]
    targets = [
        ["good", "127.0.0.1", port],
        ["six", "::1", port],
        ["closed", "127.0.0.1", 1],
        ["nowhere", "255.255.255.255", 9],
        ["no address", "not-an-address", 9],
        ["no port", "127.0.0.1", 99999999],
    ]
    done = agent.call("facts.read_reachability.connect", {"targets": targets, "timeout": 5.0}).done
    errors = {tried.target: tried.error for tried in done.read(HostsTried).results}
    assert set(errors) == {t[0] for t in targets}
    assert (errors["good"], errors["closed"]) == ("", "Connection refused")
    assert all(errors[name] for name in ("nowhere", "no address", "no port"))


# --- ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [b"", HEAD.pack(100, 0) + b'{"id": 1'])
def test_the_agent_ends_when_the_controller_is_gone(begun):
    """Also in the middle of a frame."""
    agent = start_host_agent(LocalTransport(), HERE)
    agent.start("connection.listeners.listen", {})
    agent.channel.write(begun)
    pid = agent.channel._process.pid
    agent.channel._process.stdin.close()
    assert agent.channel.exit_status(20.0) == 0
    assert gone(pid)
    agent.close()


@pytest.mark.parametrize("signal", [9, 15])
def test_a_host_that_dies_in_a_call_is_unreachable(agent, signal):
    pid = agent.channel._process.pid
    threading.Timer(0.3, os.killpg, (pid, signal)).start()  # its own session: see PipeChannel
    with refused("connection-lost") as caught:
        agent.wait(12345, timeout=30.0)
    assert type(caught.value) is Unreachable


def test_a_host_that_stays_silent_is_unreachable(agent):
    with refused("no-answer", "0 s") as caught:
        agent.wait(12345, timeout=0.2)
    assert type(caught.value) is Unreachable


# --- frames --------------------------------------------------------------------------------------

NUMBERS_OF_NO_HOST = (
    "Infinity", "-Infinity", "NaN", "1e999", "-1e999", "1" * 21, "-" + "1" * 5000,
)  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{}",
        b"abc",
        b"\xff\xfe",
        b'{"id": "1"}',
        b'{"id": true}',
        b'{"id": 1.0}',
        b"[" * 100_000,
        b'{"id": ' + b"9" * 5000 + b"}",
        *(b'{"id": 1, "done": {"a": ' + text.encode() + b"}}" for text in NUMBERS_OF_NO_HOST),
    ],
)
def test_nonsense_in_the_stream_is_a_bad_frame(data):
    with pytest.raises(BadFrame):
        Decoder().feed(HEAD.pack(len(data), 0) + data)


# --- what is sent --------------------------------------------------------------------------------

COMMON = ("files", "folder_trust", "root_paths")  # of all that use the folder
MESSAGES = (  # of a run
    "checkpoint_reports", "copy_messages", "exchange_report", "journal_records", "message",
    "rank_looks", "rank_paces",
    "run_about", "run_events", "run_orders", "supervisor_messages", "watch_orders",
)  # fmt: skip


@pytest.mark.parametrize(
    ("op", "modules"),
    [
        (
            "run.run_watch.start",
            {"root_folder", "common.locks", "common.processes"}
            | {f"common.{n}" for n in COMMON}
            | {f"common.{n}" for n in (*MESSAGES, "strict_json", "tolerant_reads", "waiting")}
            | {f"run_files.{n}" for n in ("log_follower", "journal", "run_folders")}
            | {"run.run_watch"}
            # not imported before one attaches
            | {"run.control", "common.control_questions"},
        ),
        (
            "facts.read_speed.memory",
            {"facts.read_speed", "child_processes", "heartbeat", "root_folder"}
            | {f"common.{n}" for n in COMMON}
            | {"connection.listeners", "common.message", "common.port_answers"}
            | {"common.speed_answers"},
        ),
        ("nothing.known", set()),
    ],
)
def test_a_host_gets_the_modules_of_an_operation_and_no_others(op, modules):
    assert agent_sources.modules_for_op(op) == modules


def test_every_module_is_needed_somewhere():
    texts = agent_sources.module_sources()
    needed = {name for module in texts for name in agent_sources.modules_for_op(f"{module}.op")}
    assert (
        needed | agent_sources.boot_modules()
        == texts.keys() | agent_sources.library_sources().keys()
    )


def test_every_import_of_a_module_is_seen():
    """Also in functions; of an import of a name out of a module, the module counts. What is
    imported for types alone stays here."""
    modules = agent_sources.module_sources().keys()
    for module, text in agent_sources.module_sources().items():
        expected = set()
        tree = ast.parse(text)
        for_types = [node for node in tree.body if ast.unparse(node).startswith("if MYPY:")]
        skipped = {node for block in for_types for node in ast.walk(block)}
        for node in set(ast.walk(tree)) - skipped:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ipexctl"):
                below = (node.module or "").removeprefix("ipexctl.remote").removeprefix(".")
                below = below.removeprefix("ipexctl.")
                names = {f"{below}.{alias.name}".removeprefix(".") for alias in node.names}
                assert names <= modules or below in modules, ast.unparse(node)
                expected |= (names | {below}) & modules
        found = agent_sources.module_imports(module) - agent_sources.library_sources().keys()
        assert found == expected, module


THREADS = r"""
import sys, threading
failed, start = [], threading.Barrier(16)
def load(name):
    try:
        start.wait()
        __import__(name)
        assert any(n.startswith("op_") for n in vars(sys.modules[name])), name
    except BaseException as e:
        failed.append((name, e))
names = [n for n in sources if "\ndef op_" in sources[n]] * 16
for at in range(0, len(names) - len(names) % 16, 16):
    threads = [threading.Thread(target=load, args=(n,)) for n in names[at : at + 16]]
    [t.start() for t in threads]
    [t.join() for t in threads]
print(failed)
"""


def test_threads_may_import_at_once(tmp_path):
    sources = agent_sources.module_sources() | agent_sources.library_sources()
    sources = {agent_sources._full_module_name(name): text for name, text in sources.items()}
    boot = f"{sources['ipexctl.remote.boot']}\nsources = {sources!r}\n"
    boot += "sys.meta_path.insert(0, SourceImporter(sources))\n" + THREADS
    (tmp_path / "boot.py").write_text(boot)
    command = [sys.executable, "-IS", str(tmp_path / "boot.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_package_of_our_name_on_the_host_is_not_taken(tmp_path, monkeypatch):
    (tmp_path / "ipexctl").mkdir()
    (tmp_path / "ipexctl" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with closing(start_host_agent(LocalTransport(), HERE)) as agent:
        assert probe_facts(agent).host == "here"


# --- what hosts read and say ---------------------------------------------------------------------


def test_a_host_that_reads_a_byte_now_and_then_is_given_up(monkeypatch):
    monkeypatch.setattr(transport, "WRITE_PATIENCE", 1.0)
    monkeypatch.setattr(transport, "SLOWEST", 1 << 30)
    reads = "import os, time\nwhile os.read(0, 4096): time.sleep(0.5)"
    channel = transport.PipeChannel((sys.executable, "-c", reads))
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"it has read [0-9,]+ bytes in [0-9]+ s"):
        channel.write(bytes(10 << 20))
    assert time.monotonic() - began < 10
    channel.close()


def test_lines_of_a_hosts_error_do_not_pass_for_those_of_other_hosts():
    said = agent_failure(Host("evil"), {"what": "no\ngood  changed      torch 2.13.0", "slug": "x"})
    assert said.what == "evil: no good changed torch 2.13.0"
