"""hosts, init, config and --limit as a user meets them: a process, its streams, its exit code."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from ipexctl.inventory.hostfile_text import parse_hostfile
from ipexctl.local.last_outcome import last_states, remember_sources, remember_states
from tests.answering_terminal import answering
from tests.inventory.conftest import Shell

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
        (("--to", "hostfile", "-l", "node*"), "node1 slots=4\nnode2 slots=4\n"),
        (("--to", "ansible", "-l", "node*"), "node1 slots=4\nnode2 slots=4\n"),
    ],
)
def test_hosts_as_a_list_and_in_another_format(shell, args, stdout):
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
    done = shell("hosts", "-f", "nodes", "--to", "hostfile")
    assert done.stdout == "a slots=2\nb slots=2\n"
    assert done.stderr.startswith("ipexctl: note: nodes ") and done.stderr.endswith(": a,b: 2\n")


def test_variables_that_only_ansible_reads_are_told_of(shell):
    shell.write("hf", "[web]\na\n")
    shell.write("host_vars/a.yml", "ansible_host: 10.0.0.1\n")
    (note,) = shell("hosts", "-f", "hf", "--list").stderr.splitlines()
    assert note.startswith("ipexctl: note: host_vars ") and "ansible-inventory" in note


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("hosts", "-f", "hf", "--to", "xml"), "--to xml: unknown value"),
        (("hosts", "-f", "hf", "-l", "nod"), "(did you mean 'node1'?)"),
        (("doctor", "-f", "hf", "-l", "@healthy"), "these hosts have not been checked yet"),
        (("install", "-f", "hf", "-x", "all"), "select no host in hf"),
        (("trust", "-f", "hf", "-l", ""), "--limit is empty"),
        (
            ("run", "-f", "hf", "-l", "nobody", "train.py"),
            "in hf matches 'nobody'",
        ),
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
    assert (done.returncode, done.slug) == (2, "hostfile-too-large")


# --- what the last command saw -------------------------------------------------------------------


def test_the_last_states_are_kept_per_hostfile(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    one = parse_hostfile("a\nb\nc\n", str(tmp_path / "one"))
    two = parse_hostfile("a\n", str(tmp_path / "two"))
    assert last_states(one) == {"healthy": None, "last-failed": None}
    remember_states(one, {"a": "ok", "b": "warn", "c": "unreachable"})
    assert last_states(one) == {"healthy": {"a", "b"}, "last-failed": {"c"}}
    remember_states(one, {"a": "failed", "b": "changed"}, "install")
    assert last_states(one) == {"healthy": {"a", "b"}, "last-failed": {"a"}}
    remember_states(one, {"c": "ok"})
    assert last_states(one) == {"healthy": {"a", "b", "c"}, "last-failed": frozenset()}
    assert last_states(two) == {"healthy": None, "last-failed": None}
    file = tmp_path / "state" / "ipexctl" / "last.json"
    assert (file.stat().st_mode & 0o777, [p.name for p in file.parent.iterdir()]) == (
        0o600,
        ["last.json"],
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"KEY": 3}', '{"KEY": {"doctor": 1}}'])
def test_a_broken_state_file_is_as_none(monkeypatch, tmp_path, text):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "ipexctl").mkdir()
    hosts = parse_hostfile("a\n", str(tmp_path / "hf"))
    (tmp_path / "ipexctl" / "last.json").write_text(text.replace("KEY", hosts.source))
    assert last_states(hosts)["healthy"] is None
    remember_states(hosts, {"a": "ok"})
    assert last_states(hosts)["healthy"] == {"a"}


def test_a_note_says_where_the_hosts_come_from_once_per_change(shell):
    for name in ("one", "two"):
        shell.write(name, "a\n")
    (shell.folder / "below").mkdir()
    below = replace(shell, folder=shell.folder / "below")

    def noted(said: Shell = shell, *words: str, source: str = "one") -> bool:
        done = said(*words or ("hosts", "--list"), IPEXCTL_HOSTFILE=str(shell.folder / source))
        return "hosts from" in done.stderr

    assert (noted(), noted()) == (True, False)
    assert noted(shell, "run", "-v", "none.py"), "-v always says it"
    assert (noted(below), noted(below), noted(), noted()) == (True, False, True, False)
    assert (noted(source="two"), noted(source="two"), noted()) == (True, False, True)
    assert not noted(shell, "hosts", "--list", "-f", "two")
    assert (noted(), noted()) == (True, False)


@pytest.mark.parametrize("text", ["{", "[]", '{"hostfile": 3, "hosts": [1]}'])
def test_where_hosts_came_from_has_a_file_of_its_own_that_may_be_broken(
    monkeypatch, tmp_path, text
):
    """So a command that only notes this never writes back older states of hosts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "ipexctl").mkdir()
    (tmp_path / "ipexctl/sources.json").write_text(text)
    used = {"hostfile": "hosts from one", "hosts": ""}
    assert (remember_sources(used), remember_sources(used)) == (True, False)
    assert [path.name for path in (tmp_path / "ipexctl").iterdir()] == ["sources.json"]
    (tmp_path / "ipexctl").chmod(0o777)
    assert (remember_sources(used), remember_sources(used)) == (True, True), "not trusted"


# --- init ----------------------------------------------------------------------------------------

SSH = """\
Host *
  User x
Host node1 node2
  Port 22
Host gate NODE1 !bad w?ld -x
  Port 22
"""


def test_init_writes_files_that_are_read_again(shell):
    done = shell("init", "--no-probe", "node[1-2]", "ann@c:22")
    assert (done.returncode, done.stderr) == (0, "")
    assert (shell.folder / "hostfile").read_text() == "node1\nnode2\nc port=22 user=ann\n"
    assert shell("hosts", "--list").stdout == "node1\nnode2\nc\n"


def test_init_writes_files_that_others_cannot_write_whatever_the_umask_is(shell):
    before = os.umask(0)
    try:
        assert shell("init", "--no-probe", "node1").returncode == 0
    finally:
        os.umask(before)
    assert shell("config", "--accept").returncode == 0
    modes = {path.stat().st_mode & 0o777 for path in shell.folder.iterdir()}
    assert modes == {0o644}
    assert "ignoring" not in shell("hosts", "--list").stderr


def test_init_takes_all_of_ssh_config_only_when_told(shell):
    shell.write("config", SSH)
    asked = shell("init", "-F", "config", "--no-probe")
    assert (asked.returncode, list(shell.folder.iterdir())) == (2, [shell.folder / "config"])
    assert asked.slug == "no-hosts-chosen" and "node1, node2, gate" in asked.stderr
    assert shell("init", "-F", "config", "--no-probe", "-y").returncode == 0
    assert (shell.folder / "hostfile").read_text() == "node1\nnode2\ngate\n"
    assert f"ssh_config = '{shell.folder}/config'" in (shell.folder / "ipexctl.toml").read_text()
    assert shell("hosts", "--list").stdout == "node1\nnode2\ngate\n"


def test_init_writes_through_no_link(shell):
    keys = shell.write("keys", "ssh-ed25519 AAAA\n")
    (shell.folder / "hostfile").symlink_to("keys")
    assert shell("init", "--no-probe", "--force", "h1").returncode == 0
    assert keys.read_text() == "ssh-ed25519 AAAA\n"
    assert not (shell.folder / "hostfile").is_symlink()


def test_init_replaces_nothing_unasked(shell):
    shell.write("hostfile", "precious\n")
    done = shell("init", "--no-probe", "a")
    assert (done.returncode, (shell.folder / "hostfile").read_text()) == (2, "precious\n")
    assert (done.slug, "--force" in done.errors[0].hint) == ("file-exists", True)
    shell.write("ipexctl.toml", "")
    done = shell("init", "--no-probe", "a")
    assert done.slug == "file-exists"
    assert all(name in done.errors[0].what for name in ("hostfile", "ipexctl.toml"))
    assert shell("init", "--no-probe", "--force", "a").returncode == 0
    assert (shell.folder / "hostfile").read_text() == "a\n"


@pytest.mark.parametrize(
    ("answer", "code", "written"), [(b"yes\n", 0, "node1\n"), (b"no\n", 2, "")]
)
def test_init_asks_on_a_terminal_before_it_replaces_a_file(shell, answer, code, written):
    shell.write("ipexctl.toml", "forks = 2\n")
    with answering(answer) as terminal:
        done = shell("init", "--no-probe", "node1", stdin=terminal.fd)
    hostfile = shell.folder / "hostfile"
    assert (done.returncode, hostfile.read_text() if hostfile.exists() else "") == (code, written)


@pytest.mark.parametrize("name", ["hostfile", "hosts.txt", "my nodes", 'the "hosts"'])
@pytest.mark.parametrize("config", ["", "Host *\n  User x\n", "Host node9\n"])
def test_init_uses_the_hostfile_that_is_here(shell, name, config):
    if config:
        (shell.home / ".ssh").mkdir()
        (shell.home / ".ssh" / "config").write_text(config)
    shell.write(name, "node1\nnode2 slots=2\n")
    done = shell("init", "--no-probe", *(["-y"] if config else []))
    assert (done.returncode, done.stderr) == (0, "")
    assert (shell.folder / name).read_text() == "node1\nnode2 slots=2\n"
    assert sorted(p.name for p in shell.folder.iterdir()) == sorted([name, "ipexctl.toml"])
    assert shell("hosts", "--list").stdout == "node1\nnode2\n"  # accepted, too
    before = (shell.folder / "ipexctl.toml").read_text()
    again = shell("init")
    assert (again.returncode, again.stderr) == (0, "")
    assert (shell.folder / "ipexctl.toml").read_text() == before


def test_init_leaves_settings_that_name_no_hostfile_as_they_are(shell):
    shell.write("hosts", "node1\n")
    settings = shell.write("ipexctl.toml", "forks = 2\n")
    done = shell("init", "--no-probe")
    assert (done.returncode, settings.read_text()) == (2, "forks = 2\n")
    assert 'hostfile = "hosts"\n' in done.stderr
    settings.write_text('forks = 2\nhostfile = "hosts"\n')
    assert shell("init").returncode == 0
    assert shell("hosts").returncode == 2  # what init did not write waits to be accepted


def test_init_uses_no_hostfile_that_another_user_could_have_written(shell):
    shell.write("hosts", "node1\n").chmod(0o646)
    done = shell("init", "--no-probe")
    assert (done.returncode, [p.name for p in shell.folder.iterdir()]) == (2, ["hosts"])
    assert f"try: chmod go-w {'hosts'}\n" in done.stderr


def test_init_probes_the_hosts_of_the_hostfile_and_leaves_it_alone(shell):
    """Port 1 of this machine refuses every connection."""
    shell.write("hosts", "a ansible_connection=local\nb address=127.0.0.1 port=1\n")
    done = shell("init")
    assert (done.returncode, "1 answered" in done.stdout) == (0, True)
    assert (shell.folder / "hosts").read_text().endswith("b address=127.0.0.1 port=1\n")


def test_init_user_names_hosts_for_every_folder_and_keeps_other_settings(shell):
    config = shell.home / ".config" / "ipexctl"
    done = shell("init", "--user", "--no-probe", "node[1-2]")
    assert (done.returncode, done.stderr, list(shell.folder.iterdir())) == (0, "", [])
    assert (config / "hostfile").read_text() == "node1\nnode2\n"
    listed = shell("hosts", "--list")
    assert listed.stdout == "node1\nnode2\n"
    assert f"note: hosts from {config}/hostfile ({config}/config.toml:1)" in listed.stderr
    own = 'hostfile = "hostfile"\nforks = 3\n[run]\nnotify = "true"\n'
    (config / "config.toml").write_text(own)
    again = shell("init", "--user", "--no-probe", "node9")
    assert (again.returncode, again.slug) == (2, "file-exists")
    assert (config / "hostfile").read_text() == "node1\nnode2\n"
    assert shell("init", "--user", "--no-probe", "--force", "node9").returncode == 0
    assert (config / "config.toml").read_text() == own
    assert (config / "config.toml").stat().st_mode & 0o777 == 0o600
    assert shell("hosts", "--list").stdout == "node9\n"
    shell.write("hosts", "of-project\n")
    assert shell("init", "--no-probe").returncode == 0
    assert shell("hosts", "--list").stdout == "of-project\n"


def test_doctor_of_this_machine_does_not_pass_for_the_hosts_that_are_here(shell):
    shell.write("hosts", "node1\n")
    done = shell("doctor")
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("hosts in hosts ")
    assert second.startswith("next: ipexctl init ")
    assert json.loads(shell("doctor", "--json").stdout)["unchecked"] == "hosts"
    (shell.folder / "hosts").unlink()
    assert json.loads(shell("doctor", "--json").stdout)["unchecked"] is None


def test_init_leaves_out_hosts_that_do_not_answer(shell):
    """Port 1 of this machine refuses every connection."""
    done = shell("init", "ssh://127.0.0.1:1")
    assert (done.returncode, done.stdout, list(shell.folder.iterdir())) == (4, "", [])
    assert "127.0.0.1" in done.stderr
