"""hosts, init, config and --limit as a user meets them: a process, its streams, its exit code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup as Group
from typer.main import get_command

from ipexctl.cli import app
from ipexctl.core.inventory import parse_hostfile
from ipexctl.core.settings_file import Setting, parse_settings
from ipexctl.errors import InputError
from ipexctl.local.last_outcome import last_states, remember
from ipexctl.local.settings import defaults, load
from ipexctl.verbs.init import offered
from tests.cli import ipexctl

ROOT = Path(__file__).parents[2]


@dataclass
class Shell:
    """A user with a home and a project folder of their own."""

    home: Path
    folder: Path

    def __call__(
        self, *args: str, stdin: int = subprocess.DEVNULL, **env: str
    ) -> subprocess.CompletedProcess[str]:
        place = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "NO_COLOR": "1",
            **env,
        }
        if stdin == subprocess.DEVNULL:
            return ipexctl(*args, cwd=self.folder, env=place)
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", *args],
            cwd=self.folder,
            env={"PYTHONPATH": str(ROOT), **place},
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    return Shell(tmp_path / "home", tmp_path / "project")


# --- hosts ---------------------------------------------------------------------------------------


def test_hosts_shows_the_columns_that_are_used(shell):
    shell.write("hf", "node[1-2]:4\nann@10.0.0.7:2222\n")
    done = shell("hosts", "-f", "hf")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "NAME      PORT  USER  SLOTS\n"
        "node1     -     -     4\n"
        "node2     -     -     4\n"
        "10.0.0.7  2222  ann   -\n"
    )


@pytest.mark.parametrize(
    ("args", "stdout"),
    [
        (("--list",), "node1\nnode2\n10.0.0.7\n"),
        (("--list", "-l", "node*"), "node1\nnode2\n"),
        (("--list", "-x", "node1", "-x", "node2"), "10.0.0.7\n"),
        (("--to", "mpich", "-l", "node*"), "node1:4\nnode2:4\n"),
        (("--to", "deepspeed", "-l", "node*"), "node1 slots=4\nnode2 slots=4\n"),
    ],
)
def test_hosts_as_a_list_and_for_other_programs(shell, args, stdout):
    shell.write("hf", "node[1-2]:4\nann@10.0.0.7:2222\n")
    done = shell("hosts", "-f", "hf", *args)
    assert (done.returncode, done.stdout, done.stderr) == (0, stdout, "")


def test_hosts_as_json(shell):
    shell.write("hf", "[web]\na port=22 nic=ib0\n")
    found = json.loads(shell("hosts", "-f", "hf", "--json").stdout)
    assert (found["schema_version"], found["source"], found["groups"]) == (1, "hf", {"web": ["a"]})
    (host,) = found["hosts"]
    assert {k: v for k, v in host.items() if v} == {
        "name": "a",
        "port": 22,
        "nic": "ib0",
        "groups": ["web"],
        "place": "hf:2:1",
    }


def test_notes_are_on_stderr(shell):
    shell.write("nodes", "a\na\nb\nb\n")
    done = shell("hosts", "-f", "nodes", "--to", "intelmpi")
    assert done.stdout == "a:2\nb:2\n"
    assert done.stderr.startswith("ipexctl: note: nodes names hosts several times")


def test_variables_that_only_ansible_reads_are_told_of(shell):
    shell.write("hf", "[web]\na\n")
    shell.write("host_vars/a.yml", "ansible_host: 10.0.0.1\n")
    assert shell("hosts", "-f", "hf", "--list").stderr == (
        "ipexctl: note: host_vars is not read; ansible-inventory --list --yaml reads it\n"
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("hosts", "-f", "hf", "--to", "xml"), "--to xml: no such format"),
        (("hosts", "-f", "hf", "-l", "nod"), "(did you mean 'node1'?)"),
        (("doctor", "-f", "hf", "-l", "@healthy"), "nothing is known about these hosts yet"),
        (("install", "-f", "hf", "-x", "all"), "leave no host of hf"),
        (("trust", "-f", "hf", "-l", ""), "--limit is empty"),
        (("run", "-f", "hf", "-l", "nobody", "train.py"), "no host or group matches 'nobody'"),
    ],
)
def test_what_selects_nobody_ends_with_2(shell, args, words):
    shell.write("hf", "node1\n")
    shell.write("train.py", "")
    done = shell(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_device_as_hostfile_is_refused_soon(shell):
    done = shell("hosts", "-f", "/dev/zero")
    assert done.returncode == 2
    assert "larger than 4 MiB" in done.stderr


# --- settings ------------------------------------------------------------------------------------


def test_every_command_with_such_an_option_takes_it_from_the_settings():
    settings = parse_settings('root = "/scratch"\nforks = 3\nssh_config = "c"\n', "ipexctl.toml")
    made = defaults(settings)

    def look(command: Any, default: Any, path: str) -> int:
        if isinstance(command, Group):
            each = command.commands.items()
            return sum(look(c, default.get(name, {}), f"{path} {name}") for name, c in each)
        names = {p.name for p in command.params} & {"root", "forks", "ssh_config"}
        if path.split()[1] not in ("bundle", "lab"):  # these ask no host
            assert {n: default.get(n) for n in names} == {n: settings[n].value for n in names}, path
        return len(names)

    assert look(get_command(app), made, "ipexctl") > 30


def test_the_nearest_setting_wins(shell):
    shell.write("user-hosts", "of-user\n")
    shell.write("env-hosts", "of-env\n")
    shell.write("flag-hosts", "of-flag\n")
    config = shell.home / ".config" / "ipexctl"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'hostfile = "{shell.folder}/user-hosts"\nforks = 3\n')
    seen = [shell("hosts", "--list").stdout]
    shell.write("ipexctl.toml", 'hostfile = "hosts"\n')
    shell.write("hosts", "of-project\n")
    assert shell("config", "--accept").returncode == 0
    (shell.folder / "deep" / "er").mkdir(parents=True)
    seen += [shell("hosts", "--list").stdout]
    deep = Shell(shell.home, shell.folder / "deep" / "er")
    seen += [deep("hosts", "--list").stdout]
    env = {"IPEXCTL_HOSTFILE": "env-hosts"}
    seen += [shell("hosts", "--list", **env).stdout]
    seen += [shell("hosts", "--list", "-f", "flag-hosts", **env).stdout]
    seen += [shell("hosts", "--list", "-H", "named", **env).stdout]
    assert seen == [
        *("of-user\n", "of-project\n", "of-project\n", "of-env\n", "of-flag\n", "named\n")
    ]
    assert shell("config", "--show-origin", **env).stdout == (
        f"hostfile = 'env-hosts'   # IPEXCTL_HOSTFILE\nforks = 3   # {config}/config.toml:2\n"
    )


@pytest.mark.parametrize("name", ["I_MPI_HYDRA_HOST_FILE", "WCOLL", "PBS_NODEFILE"])
def test_hostfiles_of_other_programs_are_used_and_told_of(shell, name):
    shell.write("nodes", "a\n")
    done = shell("hosts", "--list", **{name: "nodes"})
    assert (done.stdout, done.stderr) == (
        "a\n",
        f"ipexctl: note: the hosts are from nodes, by {name}\n",
    )


def test_settings_have_types_and_places():
    text = 'forks = 8\nroot = "~/x"\n\n[run]\nppn = 2\nenv = { A = "b", C = 1 }\n'
    assert parse_settings(text, "t") == {
        "forks": Setting("forks", 8, "t:1"),
        "root": Setting("root", "~/x", "t:2"),
        "run.ppn": Setting("run.ppn", 2, "t:5"),
        "run.env": Setting("run.env", {"A": "b", "C": "1"}, "t:6"),
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("fork = 2\n", "t:1: 'fork' is not a setting (did you mean 'forks'?)"),
        ("\n[run]\n# c\nnp = 2\n", "t:4: 'run.np' is not a setting (did you mean 'run.n'?)"),
        ("[other]\nx = 1\n", "t:1: 'other' is not a setting"),
        ("forks = 0\n", "t:1: forks must be a whole number from 1"),
        ("forks = true\n", "t:1: forks must be a whole number from 1"),
        ("hostfile = 3\n", "t:1: hostfile must be text in quotes"),
        ("hostfile = ''\n", "t:1: hostfile must be text in quotes"),
        ("run = 3\n", "t:1: 'run' is not a setting (did you mean 'run.n'?)"),
        ("[run.env]\n'a-b' = 1\n", "t:1: run.env has names, and values that are text or numbers"),
        *(
            (
                f"[run]\nenv = {{ A = {word} }}\n",
                "t:2: run.env has names, and values that are text or numbers",
            )
            for word in ("false", "true", "1.5")
        ),
        ("a = ", "t: this is not TOML"),
        ("a = " + "[" * 100000, "t: this is not TOML"),
    ],
)
def test_wrong_settings_are_refused_with_their_line(text, what):
    with pytest.raises(InputError) as e:
        parse_settings(text, "t")
    assert e.value.what == what


def test_a_wrong_project_file_stops_every_command_but_help(shell):
    shell.write("ipexctl.toml", "fork = 2\n")
    done = shell("doctor")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ipexctl.toml:1: 'fork' is not a setting" in done.stderr
    assert shell("doctor", "--help").returncode == 0


def test_a_home_of_nobody_is_wrong_input(shell):
    shell.write("ipexctl.toml", '# mine\nhostfile = "~nobodyx/hosts"\n')
    done = shell("hosts")
    assert done.returncode == 2
    assert "ipexctl.toml:2: hostfile: there is no user for ~nobodyx here" in done.stderr


@pytest.mark.parametrize("digits", ["9" * 5000, "²", "0", "-1"])
def test_a_number_that_is_none_is_wrong_input(digits, shell):
    with pytest.raises(InputError, match="forks must be a whole number"):
        load({"XDG_CONFIG_HOME": "/nowhere", "IPEXCTL_FORKS": digits}, shell.folder)


def give_away(path: Path) -> None:
    if os.getuid():
        pytest.skip("needs root, to give a file away")
    os.chown(path, 65534, 65534)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda file: give_away(file), "owned by nobody"),
        (lambda file: give_away(file.parent), "{folder} is owned by nobody"),
        (lambda file: file.chmod(0o646), "writable by everyone"),
        (lambda file: file.parent.chmod(0o757), "{folder} is writable by everyone"),
        (lambda file: (os.chown(file, -1, 12345), file.chmod(0o664)), "writable by its group"),
    ],
    ids=["file", "folder", "open file", "open folder", "group"],
)
@pytest.mark.parametrize("above", [False, True])
def test_settings_that_somebody_else_could_have_written_do_not_count(shell, change, why, above):
    if os.getuid():
        pytest.skip("needs root, for files of others")
    file, inside = shell.folder / "ipexctl.toml", shell.folder / "src"
    file.write_text("forks = 2\n")
    inside.mkdir()
    folder, notes = inside if above else shell.folder, []
    assert "forks" in load({"XDG_CONFIG_HOME": "/nowhere"}, folder, notes.append)
    change(file)
    assert "forks" not in load({"XDG_CONFIG_HOME": "/nowhere"}, folder, notes.append)
    assert notes == [f"ignoring {file}: {why.format(folder=shell.folder)}"]


def test_a_group_of_our_own_and_a_sticky_folder_are_no_danger(shell):
    shell.write("ipexctl.toml", "forks = 2\n").chmod(0o664)
    shell.folder.chmod(0o1777)
    assert "forks" in load({"XDG_CONFIG_HOME": "/nowhere"}, shell.folder)


def test_a_program_that_a_foreign_folder_names_is_not_started(shell):
    ran = shell.home / "ran"
    shell.write("hosts", "n1\n")
    shell.write("ssh_config", f'Match exec "touch {ran}"\n  Port 2222\n')
    file = shell.write("ipexctl.toml", "hostfile = 'hosts'\nssh_config = 'ssh_config'\n")
    for path in (shell.folder, *shell.folder.iterdir()):
        give_away(path)
    done = shell("doctor", "--json", "-H", "n1")
    assert f"ipexctl: note: ignoring {file.name}: owned by nobody" in done.stderr
    assert not ran.exists()
    shell("doctor", "--json", "-H", "n1", "-F", "ssh_config")
    assert ran.exists(), "the attack itself works"


ATTACK = "hostfile = 'hosts'\nssh_config = 'ssh_config'\nroot = '/r'\n"


@pytest.fixture
def cloned(shell):
    """A repository that was cloned: its files are the user's. What its programs leave."""
    ran = shell.home / "ran"
    shell.write("hosts", "n1\n")
    shell.write("ssh_config", f'Match exec "touch {ran}"\n  Port 2222\n')
    shell.write("ipexctl.toml", ATTACK)
    return ran


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("doctor", "--json"), "hostfile and ssh_config and root"),
        (("install", "-y"), "hostfile and ssh_config and root"),
        (("run", "-y", "x.py"), "hostfile and ssh_config and root"),
        (("trust", "-y"), "hostfile and ssh_config"),
        (("hosts", "--list"), "hostfile"),
        (("env", "ls", "-f", "mine"), "ssh_config and root"),
        (("env", "shell", "n1", "-f", "mine", "-F", "none"), "root"),
        (("data", "ls", "-H", "a", "--root", "/mine"), "ssh_config"),
        (("shell", "n1", "-F", "none", "--root", "/x"), "hostfile"),
    ],
)
def test_settings_of_a_project_wait_until_they_are_accepted(shell, cloned, words, missing):
    shell.write("mine", "n1\n")
    done = shell(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"ipexctl.toml: {missing}: not accepted yet" in done.stderr
    assert "try: ipexctl config --accept" in done.stderr
    assert not cloned.exists()


def test_init_asks_no_ssh_config_of_a_project_that_is_not_accepted(shell, cloned):
    shell("init", "--no-probe", "--force", "a")
    shell("init", "--force", "ssh://127.0.0.1:1")
    assert not cloned.exists()


@pytest.mark.parametrize("change", ["hosts", "ssh_config", "ipexctl.toml"])
def test_what_was_accepted_counts_until_it_changes(shell, cloned, change):
    done = shell("config", "--accept")
    file = f"{shell.folder}/ipexctl.toml"
    assert f"ipexctl: note: accepted: hostfile, ssh_config, root of {file}\n" in done.stderr
    used = shell("hosts", "--list")
    assert (used.returncode, used.stdout) == (0, "n1\n")
    hosts = f"ipexctl: note: the hosts are from {shell.folder}/hosts, by ipexctl.toml:1"
    assert used.stderr == f"{hosts}\n"
    assert shell("trust").stderr.startswith(
        f"{hosts}; SSH settings are from {shell.folder}/ssh_config, by ipexctl.toml:2\n"
    )
    with (shell.folder / change).open("a") as f:
        f.write("# changed\n" if change != "ipexctl.toml" else "forks = 2\n")
    again = shell("hosts", "--list")
    kept = change == "ipexctl.toml"  # what it says of hosts and SSH has not changed
    assert (again.returncode, "not accepted yet, or changed since" in again.stderr) == (
        (0, False) if kept else (2, True)
    )


def test_options_go_before_settings_that_are_not_accepted(shell, cloned):
    shell.write("mine", "other\n")
    done = shell("hosts", "--list", "-f", "mine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "other\n", "")
    words = ("doctor", "--json", "-H", "ssh://127.0.0.1:1", "-F", "none", "--root", "/mine")
    done = shell(*words)
    assert (done.returncode, "accepted" in done.stderr, cloned.exists()) == (4, False, False)


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 2), ("\n", 2), ("\x04", 2)])
def test_a_project_is_asked_about_on_a_terminal(shell, cloned, typed, code):
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        env = {"PATH": os.environ["PATH"], "HOME": str(shell.home), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "ipexctl", "hosts", "--list"], cwd=shell.folder, env=env,
            stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, timeout=60,
        )  # fmt: skip
        shown = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (code, b"n1\n" if not code else b"")
    assert f"hostfile    {shell.folder}/hosts" in shown
    assert shell("hosts", "--list").returncode == code
    assert not cloned.exists()


def test_an_ssh_config_of_the_settings_that_others_can_write_is_refused(shell, cloned):
    (shell.folder / "ssh_config").chmod(0o646)
    shell("config", "--accept")
    done = shell("trust")
    assert done.returncode == 2
    assert f"{shell.folder}/ssh_config: writable by everyone" in done.stderr
    assert f"try: chmod go-w {shell.folder}/ssh_config" in done.stderr


# --- what the last command saw -------------------------------------------------------------------


def test_the_last_states_are_kept_per_hostfile(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    one = parse_hostfile("a\nb\nc\n", str(tmp_path / "one"))
    two = parse_hostfile("a\n", str(tmp_path / "two"))
    assert last_states(one) == {"healthy": None, "last-failed": None}
    remember(one, {"a": "ok", "b": "warn", "c": "unreachable"})
    assert last_states(one) == {"healthy": {"a", "b"}, "last-failed": {"c"}}
    remember(one, {"a": "failed", "b": "changed"}, "install")
    assert last_states(one) == {"healthy": {"a", "b"}, "last-failed": {"a"}}
    remember(one, {"c": "ok"})
    assert last_states(one) == {"healthy": {"a", "b", "c"}, "last-failed": frozenset()}
    assert last_states(two) == {"healthy": None, "last-failed": None}
    file = tmp_path / "state" / "ipexctl" / "last.json"
    assert (file.stat().st_mode & 0o777, [p.name for p in file.parent.iterdir()]) == (
        0o600,
        ["last.json"],
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"inventories": 3}', '{"inventories": {"": 1}}'])
def test_a_broken_state_file_is_as_none(monkeypatch, tmp_path, text):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "ipexctl").mkdir()
    (tmp_path / "ipexctl" / "last.json").write_text(text)
    hosts = parse_hostfile("a\n", "hf")
    assert last_states(hosts)["healthy"] is None
    remember(hosts, {"a": "ok"})
    assert last_states(hosts)["healthy"] == {"a"}


# --- init ----------------------------------------------------------------------------------------

SSH = "Host *\n  User x\nHost node1 node2\n  Port 22\nHost gate !bad w?ld -x\n  Port 22\n"


def test_names_of_ssh_config_are_offered_but_not_its_patterns(tmp_path):
    (tmp_path / "config").write_text(SSH)
    assert offered(tmp_path / "config") == ("node1", "node2", "gate")


def test_names_that_differ_in_their_case_only_are_offered_once(tmp_path):
    (tmp_path / "config").write_text("Host Node1\n Port 1\nHost node1 b\n Port 2\n")
    assert offered(tmp_path / "config") == ("Node1", "b")


def test_init_writes_files_that_are_read_again(shell):
    done = shell("init", "--no-probe", "node[1-2]", "ann@c:22")
    assert (done.returncode, done.stderr) == (0, "")
    assert (shell.folder / "hostfile").read_text() == "node1\nnode2\nc port=22 user=ann\n"
    assert shell("hosts", "--list").stdout == "node1\nnode2\nc\n"


def test_init_takes_all_of_ssh_config_only_when_told(shell):
    shell.write("config", SSH)
    asked = shell("init", "-F", "config", "--no-probe")
    assert (asked.returncode, list(shell.folder.iterdir())) == (2, [shell.folder / "config"])
    assert "ssh_config has: node1, node2, gate" in asked.stderr
    assert shell("init", "-F", "config", "--no-probe", "-y", "--yaml").returncode == 0
    assert (shell.folder / "hosts.yaml").read_text() == "hosts:\n  node1:\n  node2:\n  gate:\n"
    assert f"ssh_config = '{shell.folder}/config'" in (shell.folder / "ipexctl.toml").read_text()
    assert shell("hosts", "--list").stdout == "node1\nnode2\ngate\n"


def test_init_replaces_nothing_unasked(shell):
    shell.write("hostfile", "precious\n")
    done = shell("init", "--no-probe", "a")
    assert (done.returncode, (shell.folder / "hostfile").read_text()) == (2, "precious\n")
    assert "hostfile exists already\n  try: --force replaces it\n" in done.stderr
    shell.write("ipexctl.toml", "")
    done = shell("init", "--no-probe", "a")
    assert "hostfile and ipexctl.toml exist already\n  try: --force replaces them\n" in done.stderr
    assert shell("init", "--no-probe", "--force", "a").returncode == 0
    assert (shell.folder / "hostfile").read_text() == "a\n"


@pytest.mark.parametrize(
    ("typed", "code", "written"),
    [("node*\nyes\n", 0, "node1\nnode2\n"), ("\nno\n", 2, "old\n"), ("nobody\n", 2, "old\n"),
     ("\x04yes\n", 2, "old\n")],
)  # fmt: skip
def test_init_asks_on_a_terminal(shell, typed, code, written):
    shell.write("config", SSH)
    shell.write("hostfile", "old\n")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        done = shell("init", "-F", "config", "--no-probe", stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, (shell.folder / "hostfile").read_text()) == (code, written)


def test_init_leaves_out_hosts_that_do_not_answer(shell):
    """Port 1 of this machine refuses every connection."""
    done = shell("init", "ssh://127.0.0.1:1")
    assert (done.returncode, done.stdout, list(shell.folder.iterdir())) == (4, "", [])
    assert "no host answered; nothing was written" in done.stderr
