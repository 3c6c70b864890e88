"""Every kind of SSH host people have, through both transports: who is reached, what is said."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import HostDown
from ipexctl.errors import HostFailed, HostKeyChanged, HostKeyUnknown, InputError, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.lab import LabSpec
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.fleet import fan_out
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.ssh.openssh_transport import OpenSshTransport
from ipexctl.machines.ssh.paramiko_transport import SshTransport
from ipexctl.machines.ssh.secrets import Secrets
from ipexctl.machines.ssh.transport_choice import choose_transport
from tests.practice_hosts import start_lab
from tests.ssh.conftest import ssh_add
from tests.ssh.matrix import PASSPHRASE, PASSWORD, SHELLS, Matrix, set_up

DEADLINE = 12.0
GRACE = 15.0  # this machine is slow and shared; without a deadline it would be for ever
FAR = 60.0
REPO = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def matrix(full_rung, lab_root, tmp_path_factory) -> Iterator[Matrix]:
    lab = start_lab(LabSpec.plain(1, name="matrix"), lab_root)
    try:
        yield set_up(lab, tmp_path_factory.mktemp("user"))
    finally:
        lab.down()


class Person:
    """Types the same answer to everything, and remembers what was asked."""

    def __init__(self, answer: str) -> None:
        self.answer, self.asked = answer, []

    def __call__(self, prompt: str) -> str:
        self.asked.append(prompt)
        return self.answer


def over(kind: str, matrix: Matrix, *names: str, secrets: Secrets | None = None):
    hosts = tuple(Host(n) for n in names)
    if kind == "openssh":
        return OpenSshTransport(hosts, matrix.config())
    secrets = secrets or Secrets(terminal=False)
    return choose_transport(hosts, matrix.config(), secrets, lambda text: None)


def ask(transport, host: Host, timeout: float = DEADLINE) -> int:
    """The agent's answer to one request: the user's number on the host."""
    with closing(start_host_agent(transport, host, timeout=timeout)) as agent:
        root = "~/.ipexctl"
        done = agent.call(
            "facts.probe.facts", {"root": root, "listen": False, "fs": "/"}, total=60
        ).done
        return int(done["host"]["uid"])


def outcome(kind: str, matrix: Matrix, name: str, timeout: float = FAR, **more) -> tuple[str, str]:
    """("", "") when the agent ran there; else the kind of error and its first line."""
    with closing(over(kind, matrix, name, **more)) as transport:
        said = fan_out([Host(name)], lambda h: ask(transport, h, timeout))[Host(name)]
    return (said.slug, said.what) if isinstance(said, HostDown) else ("", "")


REACHED = [
    "odd-port",
    "v6",
    "certified",
    "banner",
    "behind-one",
    "behind-two",
    "csh",
    "fish",
    "noisy",
]
REFUSED = {  # name: the error, and a value that it names
    **{
        name: ("session-ended", f"exit code {code}")
        for name, code in {"false": 1, "nologin": 1, "rude": 3, "leaves": 0, "forced": 0}.items()
    },
    "sftp-only": ("session-ended", ""),
    "reads": ("startup-file-reads-input", ""),
    "reads-zsh": ("startup-file-reads-input", ""),
    "closed": ("connection-refused", ""),
    "nowhere": ("name-not-resolved", ""),
    "password": ("login-failed", ""),
    "garbage": ("not-ssh", ""),
}
# ssh keeps to itself what such a port says, so it looks like a full sshd and is tried again
OVER_OPENSSH = {"garbage": "connection-dropped"}
WITHOUT_END = ("silent", "drip")  # these end with the deadline alone


def _skip_missing(matrix: Matrix, name: str) -> None:
    if name in matrix.missing:
        pytest.skip(f"{SHELLS[name]} is not on this machine")


@pytest.mark.parametrize(
    ("name", "blamed", "innocent"),
    [
        ("reads", ["line 3 of /home/reads/.bashrc: read -r answer"], ["line 1", "ForceCommand"]),
        ("reads-zsh", ["line 1 of /home/reads-zsh/.zshenv: read answer"], ["bashrc"]),
        ("leaves", ["~/.bashrc", "ForceCommand"], ["nologin", "it printed"]),
        ("forced", ["ForceCommand", "it printed: only backups here"], ["nologin"]),
        ("sftp-only", ["ForceCommand"], []),
        ("false", ["nologin"], []),
    ],
)
def test_what_stands_between_the_login_and_the_command_is_blamed(matrix, name, blamed, innocent):
    _skip_missing(matrix, name)
    with closing(over("paramiko", matrix, name)) as transport, pytest.raises(HostFailed) as e:
        start_host_agent(transport, Host(name), timeout=FAR)
    assert [word for word in blamed if word not in e.value.why] == []
    assert [word for word in ("ython3", *innocent) if word in e.value.what + e.value.why] == []


@pytest.mark.parametrize(("name", "least"), [("slow", 3500), ("csh", 0), ("fish", 0)])
def test_a_host_tells_how_long_its_start_up_files_take(matrix, name, least):
    _skip_missing(matrix, name)
    transport = over("paramiko", matrix, name)
    agent = start_host_agent(transport, Host(name), timeout=FAR)
    took = probe_facts(agent).condition.system.login_ms
    agent.close()
    transport.close()
    assert took is not None and least <= took < least + 3000


@pytest.mark.parametrize("kind", ["paramiko", "openssh"])
def test_each_is_reached_or_told_by_its_reason_and_none_delays_the_others(matrix, kind):
    names = [n for n in (*REACHED, *REFUSED, *WITHOUT_END) if n not in matrix.missing]
    transport = over(kind, matrix, *names)
    took: dict[str, float] = {}

    def timed(host: Host) -> int:
        began = time.monotonic()
        try:
            return ask(transport, host)
        finally:
            took[host.name] = time.monotonic() - began

    try:
        said = fan_out([Host(n) for n in names], timed, forks=len(names))
    finally:
        transport.close()
    expected = {name: slug for name, (slug, _) in REFUSED.items()}
    expected |= dict.fromkeys(WITHOUT_END, "no-ssh-banner")
    expected |= OVER_OPENSSH if kind == "openssh" else {}
    downs = {h.name: s for h, s in said.items() if isinstance(s, HostDown)}
    assert {n: downs[n].slug if n in downs else "" for n in names} == {
        n: expected.get(n, "") for n in names
    }
    assert [n for n in REFUSED if n in downs and REFUSED[n][1] not in downs[n].what] == []
    assert max(took.values()) < DEADLINE + GRACE, took


# --- passwords and passphrases -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["password", "keyboard", "both"])
def test_a_password_is_asked_for_once_and_lets_us_in(matrix, name):
    person = Person(PASSWORD)
    secrets = Secrets(ask_pass=True, ask=person, terminal=True)
    assert outcome("paramiko", matrix, name, secrets=secrets) == ("", "")
    assert outcome("paramiko", matrix, name, secrets=secrets) == ("", "")
    assert person.asked == ["SSH password: "]


@pytest.mark.parametrize("name", ["password", "keyboard"])
def test_a_wrong_password_is_a_failed_login_and_is_not_shown(matrix, name):
    secrets = Secrets(ask_pass=True, ask=Person("hunter2"), terminal=True)
    transport = over("paramiko", matrix, name, secrets=secrets)
    with closing(transport), pytest.raises(Unreachable) as e:
        transport.open(Host(name), "true", FAR)
    assert (e.value.slug, "trainer" in e.value.what) == ("login-failed", True)
    assert "the password" in e.value.why
    assert "hunter2" not in f"{e.value.what}{e.value.why}{e.value.hint}{secrets!r}"


def test_without_a_terminal_no_password_is_asked_for(matrix):
    person = Person(PASSWORD)
    with pytest.raises(InputError) as e:
        over(
            "paramiko",
            matrix,
            "password",
            secrets=Secrets(ask_pass=True, ask=person, terminal=False),
        )
    assert (e.value.slug, person.asked) == ("no-terminal", [])


def test_a_passphrase_is_asked_for_once_for_all_hosts(matrix):
    person = Person(PASSPHRASE)
    secrets = Secrets(ask=person, terminal=True)
    assert outcome("paramiko", matrix, "encrypted", secrets=secrets) == ("", "")
    assert outcome("paramiko", matrix, "encrypted", secrets=secrets) == ("", "")
    assert person.asked == [f"Passphrase of {matrix.folder}/encrypted: "]


def test_a_wrong_passphrase_is_asked_for_three_times_and_then_told(matrix, capsys):
    person = Person("wrong")
    transport = over("paramiko", matrix, "encrypted", secrets=Secrets(ask=person, terminal=True))
    with closing(transport), pytest.raises(Unreachable) as e:
        transport.open(Host("encrypted"), "true", FAR)
    assert len(person.asked) == 3
    assert e.value.hint == f"ssh-add {matrix.folder}/encrypted"
    assert capsys.readouterr().err.count("Wrong passphrase.") == 2


@pytest.mark.parametrize("kind", ["paramiko", "openssh"])
@pytest.mark.parametrize("key", ["encrypted", "certified"])
def test_an_agent_holds_the_key(matrix, kind, key, ssh_agent, tmp_path, monkeypatch):
    """Its certificate too, when ssh_config names one."""
    monkeypatch.setenv("SSH_AUTH_SOCK", ssh_agent["SSH_AUTH_SOCK"])
    askpass = tmp_path / "askpass"
    askpass.write_text(f"#!/bin/sh\necho '{PASSPHRASE}'\n")
    askpass.chmod(0o700)
    asked = {"SSH_ASKPASS": str(askpass), "SSH_ASKPASS_REQUIRE": "force"}
    ssh_add({**ssh_agent, **asked}, matrix.folder / key)
    shutil.move(matrix.folder / key, tmp_path / "key")
    try:
        assert outcome(kind, matrix, key) == ("", "")
    finally:
        shutil.move(tmp_path / "key", matrix.folder / key)


# --- host keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["paramiko", "openssh"])
@pytest.mark.parametrize(
    ("known", "slug"),
    [
        ("# nobody\n", HostKeyUnknown.slug),
        ("* {other}\n", HostKeyChanged.slug),
        ("* {right}\n@revoked * {right}\n", "host-key-revoked"),
        ("@cert-authority * {other}\n", HostKeyUnknown.slug),
    ],
)
def test_a_host_key_that_nobody_vouches_for_is_refused(matrix, kind, known, slug):
    right = " ".join(matrix.lab.known_hosts.read_text().split()[1:3])
    other = " ".join((matrix.folder / "other_key.pub").read_text().split()[:2])
    config = matrix.config(known=known.format(right=right, other=other))
    hosts = (Host("odd-port"),)
    transport = (
        SshTransport(hosts, config) if kind == "paramiko" else OpenSshTransport(hosts, config)
    )
    with pytest.raises(Unreachable) as e:
        transport.open(hosts[0], "true", FAR)
    transport.close()
    assert e.value.slug == slug


def test_our_own_known_hosts_counts_for_ssh_as_well(matrix, own_state):
    right = " ".join(matrix.lab.known_hosts.read_text().split()[1:3])
    own = own_state / "ipexctl" / "known_hosts"
    own.parent.mkdir(parents=True)
    own.write_text(f"* {right}\n")
    hosts = (Host("odd-port"),)
    transport = OpenSshTransport(hosts, matrix.config(known="# nobody\n"))
    assert ask(transport, hosts[0], FAR) == matrix.lab._uid


def test_a_host_behind_a_forwarded_port_is_not_called_closed(matrix):
    """sshd there sees loopback, where others do not go; what it listens to beside is of no use."""
    argv = [sys.executable, "-m", "ipexctl", "doctor", "--json", "-F", str(matrix.config())]
    argv += ["-H", "behind-one,odd-port"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=REPO, timeout=120)
    document = json.loads(done.stdout)
    assert [h["error"] for h in document["hosts"]] == [None, None]
    numbers = {f["id"] for h in document["hosts"] for f in h["findings"]}
    numbers |= {f["id"] for f in document["findings"]}
    assert not numbers & {"NET-002", "NET-003", "NET-004"}


# --- what hosts say is only text -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("paramiko", []),
        ("paramiko", ["--json"]),
        pytest.param("paramiko", ["-v"], marks=pytest.mark.soak),
        pytest.param("openssh", [], marks=pytest.mark.soak),
        ("openssh", ["-v"]),
        pytest.param("openssh", ["--json"], marks=pytest.mark.soak),
    ],
)
def test_what_hosts_say_reaches_the_terminal_as_text(matrix, kind, form):
    name = "[bold red]n\\x1b[31m\\a[/]"
    script = f'import socket; socket.sethostname(b"{name}")'
    matrix.root(f"python3 -c '{script}'")
    matrix.root("printf 'PRETTY_NAME=\"[bold red]Evil\\033[31m\\007[/]\"\\n' > /etc/os-release")
    try:
        argv = [sys.executable, "-m", "ipexctl", "doctor", "-F", str(matrix.config()), *form]
        argv += ["--transport", kind, "-H", "banner,rude,garbage,odd-port"]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=REPO, timeout=120)
    finally:
        matrix.root("hostname node01; rm -f /etc/os-release")
    assert (done.returncode, done.stderr) == (4, "")
    assert re.findall(r"[^\n -\uffff]|[\x7f-\x9f]", done.stdout) == []
    assert "[bold red]Evil[31m[/]" in done.stdout
    assert "[bold red]go away" in done.stdout
    if form == ["--json"]:
        texts = json.dumps(json.loads(done.stdout), ensure_ascii=True)
        assert "\\u001b" not in texts and "\\u0007" not in texts
