"""`ipexctl shell`: a person's terminal on a host, through a real PTY on both sides."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.errors import InputError, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.lab import Lab, LabSpec
from ipexctl.machines.ssh.paramiko_transport import SshTransport
from ipexctl.machines.ssh.terminal import _connection_class
from ipexctl.machines.target import Target, target_of_host
from ipexctl.shell.shell import find_host, remote_line
from tests.cli import ipexctl
from tests.practice_hosts import start_lab
from tests.ssh.conftest import keygen

PATIENCE = 90.0
REPO = Path(__file__).parents[2]
FROM_ENV = "from the environment\n"
IPEXCTL = [sys.executable, "-m", "ipexctl"]


class Terminal:
    """A person's terminal with the program in it."""

    def __init__(self, argv: list[str], rows: int, columns: int) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(REPO)
            os.environ.update(PYTHONPATH=str(REPO), TERM="dumb")
            time.sleep(0.2)  # the size is set first
            os.execvp(argv[0], argv)
        self.resize(rows, columns)
        self.said = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, pattern: str) -> re.Match[str]:
        """Waits until the screen shows it, then forgets the screen."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.said)):
            assert time.monotonic() < deadline, self.said
            if select.select([self.fd], [], [], 1.0)[0]:
                self.said += os.read(self.fd, 4096).decode("utf-8", "replace")
        self.said = self.said[found.end() :]
        return found

    def exit_code(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, self.said
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self.fd, 4096).decode("utf-8", "replace")
                except OSError:
                    time.sleep(0.05)


@pytest.fixture(scope="module")
def lab(lab_root) -> Iterator[Lab]:
    """One host with something that looks like an installed environment."""
    lab = start_lab(LabSpec.plain(1, name="person"), lab_root)
    script = """
        cd; env=.ipexctl/envs/0123456789abcdef
        mkdir -p $env/bin $env/lib/python3.11/site-packages/impi_rt-2021.16.1.dist-info
        ln -s /usr/bin/python3 $env/bin/python
        printf '#!/bin/sh\\necho from the environment\\n' > $env/bin/mpirun
        chmod +x $env/bin/mpirun; ln -s envs/0123456789abcdef .ipexctl/current
    """
    try:
        done = lab.run_in("node01", ["sh", "-ec", script], user="trainer")
        assert done.returncode == 0, done.stderr
        yield lab
    finally:
        lab.down()


def shell(lab: Lab, *more: str) -> list[str]:
    return [*IPEXCTL, "shell", "node01", "-f", str(lab.hostfile), "-F", str(lab.ssh_config), *more]


@pytest.mark.parametrize("kind", ["paramiko", "openssh"])
def test_a_person_works_on_the_host_in_the_environment(lab, kind):
    terminal = Terminal(shell(lab, "--transport", kind), 31, 97)
    terminal.until(r"[$#] $")
    terminal.type("stty size; mpirun; echo I_MPI=$I_MPI_ROOT; id -un\r")
    terminal.until(r"\n31 97\r")
    terminal.until(r"\nfrom the environment\r")
    terminal.until(r"\nI_MPI=/home/trainer/.ipexctl/envs/0123456789abcdef\r\ntrainer\r")
    terminal.resize(40, 120)
    terminal.type("sleep 1; stty size\r")
    terminal.until(r"\n40 120\r")
    terminal.type("sh -c 'echo started; exec sleep 600'\r")
    terminal.until(r"\nstarted\r")
    terminal.type("\x03")  # is the host's own: it ends the sleep, not us
    terminal.type("echo code=$?\r")
    terminal.until(r"\ncode=130\r")
    terminal.type("exit 7\r")
    assert terminal.exit_code() == 7


@pytest.mark.parametrize("kind", ["paramiko", "openssh"])
def test_a_command_runs_in_the_environment_and_its_exit_code_is_ours(lab, kind):
    script = 'mpirun; echo "$1"; cat; echo wrong >&2; exit 3'
    argv = shell(lab, "--transport", kind, "--", "sh", "-c", script, "sh", "it's * $HOME")
    done = subprocess.run(argv, input="from here\n", capture_output=True, text=True, cwd=REPO)
    assert (done.returncode, done.stdout, done.stderr) == (
        3,
        FROM_ENV + "it's * $HOME\nfrom here\n",
        "wrong\n",
    )


@pytest.mark.parametrize("kind", ["paramiko", "openssh"])
def test_stdin_and_stdout_are_bytes_and_stderr_is_apart(lab, kind):
    """More than the windows of SSH hold, with every byte there is, at odd offsets."""
    data = bytes(range(256)) * 20_001 + b"\xff\x00\xc3"
    argv = shell(lab, "--transport", kind, "--", "sh", "-c", "tee copy; wc -c < copy >&2; exit 3")
    done = subprocess.run(argv, input=data, capture_output=True, cwd=REPO)
    assert (done.returncode, done.stderr) == (3, f"{len(data)}\n".encode())
    assert done.stdout == data
    down = subprocess.run(
        shell(lab, "--transport", kind, "--", "cat", "copy"),
        stdin=subprocess.DEVNULL, capture_output=True, cwd=REPO,
    )  # fmt: skip
    assert (down.returncode, down.stdout, down.stderr) == (0, data, b"")


def test_a_stdin_that_stays_open_does_not_keep_a_command_that_has_ended(lab):
    ours, theirs = os.pipe()
    try:
        argv = shell(lab, "--", "sh", "-c", "exec >&- 2>&-; sleep 0.5; exit 4")
        done = subprocess.run(argv, stdin=ours, capture_output=True, cwd=REPO, timeout=PATIENCE)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout, done.stderr) == (4, b"", b"")


def test_a_command_that_reads_no_more_ends_the_program_before_it(lab):
    script = 'yes | "$@"; echo "${PIPESTATUS[@]}"'
    argv = ["bash", "-c", script, "sh", *shell(lab, "--", "head", "-n", "1")]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=REPO, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("y\n141 0\n", "")


def test_ctrl_c_ends_the_command_on_the_host_too(full_rung, lab):
    """An sshd that runs as an ordinary user passes no signal on."""
    argv = shell(lab, "--", "sh", "-c", "echo up; exec sleep 3601")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=REPO) as running:
        assert running.stdout and running.stdout.readline() == b"up\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 130
    look = ["pgrep", "-fx", "sleep 3601"]
    assert wait_until(lambda: lab.run_in("node01", look).returncode, PATIENCE, 0.1)


def test_ctrl_c_in_a_terminal_is_the_commands(lab):
    script = "trap 'echo caught' INT; echo up; sleep 600; exit 5"
    terminal = Terminal(shell(lab, "--", "sh", "-c", script), 24, 80)
    terminal.until("up\r")
    terminal.type("\x03")
    terminal.until("caught\r")
    assert terminal.exit_code() == 5


ENDINGS = [
    (["sh", "-c", "kill -9 $$"], 137, ""),
    (["sh", "-c", "kill -TERM $$"], 143, ""),
    (["printf", "\udcff"], 0, "\ufffd"),
]


@pytest.mark.parametrize("kind", ["paramiko", "openssh"])
@pytest.mark.parametrize(("words", "code", "said"), ENDINGS)
def test_a_command_ends_as_a_shell_has_it_and_gets_its_bytes_as_they_are(
    lab, kind, words, code, said
):
    argv = shell(lab, "--transport", kind, "--", *words)
    done = subprocess.run(argv, capture_output=True, cwd=REPO, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr) == (
        code,
        said,
        b"",
    )


@pytest.mark.parametrize(("words", "code", "said"), ENDINGS)
def test_a_command_on_this_machine_ends_in_the_same_way(tmp_path, words, code, said):
    (tmp_path / "hostfile").write_text("here ansible_connection=local\n")
    argv = [*IPEXCTL, "shell", "here", "-f", str(tmp_path / "hostfile"), "--root", str(tmp_path)]
    done = subprocess.run([*argv, "--", *words], capture_output=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout.decode("utf-8", "replace")) == (code, said)


@pytest.mark.parametrize(
    ("to", "code", "said"),
    [("| head -1", 141, ""), ("> /dev/full", 1, "ipexctl: stdout: No space left on device\n")],
)
def test_a_stdout_that_takes_no_more_is_not_a_host_that_is_gone(lab, to, code, said):
    script = f'("$@" {to}; exit ${{PIPESTATUS[0]}})'
    argv = ["bash", "-c", script, "sh", *shell(lab, "--", "seq", "2000000")]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=REPO, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (code, said)


def test_where_nothing_is_installed_it_says_so_and_goes_on(lab):
    argv = shell(lab, "--root", "/tmp/nothing", "--", "echo", "hello")
    done = subprocess.run(argv, capture_output=True, text=True, cwd=REPO, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert done.stderr.startswith("node01: ") and "/tmp/nothing" in done.stderr


def test_a_shell_without_a_terminal_is_refused(lab):
    done = ipexctl(*shell(lab)[len(IPEXCTL) :], cwd=REPO)
    assert (done.returncode, done.stdout, done.slug) == (2, "", "no-terminal")


def test_fabric_never_connects_by_itself(sshd, transport, tmp_path):
    """Not even when ours is lost: its own way would take any host key."""
    connection = _connection_class()("127.0.0.1", "root", sshd.port)
    with pytest.raises(Unreachable, match="^127.0.0.1: ") as e:
        connection.run("true")
    assert e.value.slug == "connection-lost"
    assert "Connection from" not in sshd.log


def test_the_host_key_is_judged_before_a_shell_too(sshd, tmp_path):
    keygen(tmp_path / "other")
    other = (tmp_path / "other.pub").read_text()
    config = sshd.config("n", known=f"[127.0.0.1]:{sshd.port} {other}")
    ssh = SshTransport((Host("n"),), config)
    with pytest.raises(Unreachable) as e:
        ssh.attend(Host("n"), "true", 20.0, pty=False)
    assert e.value.slug == "host-key-changed"
    ssh.close()
    assert "publickey" not in sshd.log


# --- the line for the login shell ----------------------------------------------------------------

ENV = (("PATH", "/e nv/bin"), ("LD_LIBRARY_PATH", "/e nv/lib"), ("I_MPI_ROOT", "/e nv"))
SHOW = "echo $PATH; echo $LD_LIBRARY_PATH; echo $I_MPI_ROOT$PYTHONPATH; for a; do echo [$a]; done"


@pytest.mark.parametrize("login", ["sh", "bash", "csh", "tcsh", "fish"])
@pytest.mark.parametrize("library", ["", "/old"])
def test_every_login_shell_reads_the_line_alike(login, library):
    if not Path("/usr/bin", login).exists():
        pytest.skip(f"{login} is not on this machine")
    line = remote_line(ENV, ("/bin/sh", "-c", SHOW, "sh", "a b", "it's", "$HOME", "*", "!x"))
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/dev/null/none",
        "PYTHONPATH": "/elsewhere",
        **({"LD_LIBRARY_PATH": library} if library else {}),
    }
    done = subprocess.run(
        [f"/usr/bin/{login}", "-c", line], env=env, capture_output=True, text=True
    )
    rest = f":{library}" if library else ""
    assert done.stdout.splitlines() == [
        "/e nv/bin:/usr/bin:/bin",
        f"/e nv/lib{rest}",
        "/e nv",
        "[a b]",
        "[it's]",
        "[$HOME]",
        "[*]",
        "[!x]",
    ]


def test_a_name_that_is_not_in_the_hostfile_is_told(tmp_path):
    hostfile = tmp_path / "hosts"
    hostfile.write_text("node01\nnode02\n")
    assert find_host(Target(hostfile), "node02").name == "node02"
    with pytest.raises(InputError, match="node03") as refused:
        find_host(Target(hostfile), "node03")
    assert refused.value.hint == f"ipexctl shell node02 -f {hostfile}"
    with pytest.raises(InputError, match="other") as refused:
        find_host(Target(hostfile), "other")
    assert refused.value.hint == "available hosts: node[01-02]"


def test_the_hostfile_of_the_settings_counts_if_it_has_the_host(tmp_path):
    (tmp_path / "hosts").write_text("there port=2222 user=me\nelsewhere\n")
    target = Target(tmp_path / "hosts", (), None, 1)
    assert find_host(target_of_host(target, "there"), "there").port == 2222
    assert target_of_host(target, "new").hosts == ("new",)
    assert find_host(target_of_host(target, "new"), "new").port == 0
    assert find_host(target_of_host(Target(None, (), None, 1), "new"), "new").name == "new"


def test_a_shell_is_for_one_host():
    with pytest.raises(InputError, match="one host"):
        find_host(Target(hosts=("node[01-02]",)), "node[01-02]")
