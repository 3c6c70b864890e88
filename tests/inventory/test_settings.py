"""Settings: where they come from, which counts, and which of a project wait to be accepted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup as Group
from typer.main import get_command

from ipexctl.cli import app
from ipexctl.errors import InputError
from ipexctl.local.settings import load_settings, option_defaults
from ipexctl.local.settings_file import Setting, parse_settings
from tests.answering_terminal import answering
from tests.inventory.conftest import ROOT, Shell
from tests.pastable import why_not_pastable


def test_every_command_with_such_an_option_takes_it_from_the_settings():
    settings = parse_settings('root = "/scratch"\nforks = 3\nssh_config = "c"\n', "ipexctl.toml")

    def look(command: Any, path: str, parent: Any) -> int:
        made = command.make_context(path.split()[-1], ["x"], parent, resilient_parsing=True)
        if parent is None:
            made.obj = settings
        if isinstance(command, Group):
            each = ((name, command.get_command(made, name)) for name in command.commands)
            return sum(look(inner, f"{path} {name}", made) for name, inner in each)
        names = {p.name for p in command.params} & {"root", "forks", "ssh_config"}
        assert {n: made.lookup_default(n) for n in names} == {n: settings[n].value for n in names}
        return len(names)

    assert look(get_command(app), "ipexctl", None) > 30


def test_settings_of_run_are_defaults_of_run_alone():
    settings = parse_settings("forks = 3\n[run]\nppn = 2\nenv = { A = 1 }\n", "ipexctl.toml")
    assert option_defaults(settings, "run") == {"forks": 3, "ppn": 2}
    assert option_defaults(settings, "ps") == {"forks": 3}


def test_a_command_that_runs_at_the_end_is_a_setting_of_the_user_alone(shell):
    shell.write("ipexctl.toml", '[run]\nnotify = "touch evil"\n')
    done = shell("run", "t.py")
    assert (done.returncode, done.slug) == (2, "setting-not-allowed")
    assert "run.notify" in done.errors[0].what
    (shell.folder / "ipexctl.toml").unlink()
    config = shell.home / ".config" / "ipexctl"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[run]\nnotify = "true"\n')
    assert shell("config").stdout == "run.notify = 'true'\n"


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
    assert (done.stdout, done.stderr.splitlines()[0].endswith(f" nodes ({name})")) == ("a\n", True)


@pytest.mark.parametrize(
    ("job", "hosts"),
    [
        ({"SLURM_JOB_NODELIST": "node[01-03],gpu7"}, "node01,node02,node03,gpu7"),
        ({"SLURM_JOB_NODELIST": "r[1-2]n[1-2]"}, "r1n1,r1n2,r2n1,r2n2"),
        (
            {"SLURM_JOB_NODELIST": "a[1-3]",
             "SLURM_TASKS_PER_NODE": "2(x2),1", "SLURM_NTASKS": "5"},
            "a1:2,a2:2,a3:1",
        ),
        ({"SLURM_JOB_NODELIST": "a[1-3]", "SLURM_TASKS_PER_NODE": "56(x3)"}, "a1,a2,a3"),
        (
            {"SLURM_JOB_NODELIST": "a[1-3]", "SLURM_TASKS_PER_NODE": "2x", "SLURM_NTASKS": "6"},
            "a1,a2,a3",
        ),
    ],
)  # fmt: skip
def test_the_hosts_of_a_slurm_job_are_used_and_told_of(shell, job, hosts):
    shell.write("of-project", "p\n")
    shell.write("ipexctl.toml", "hostfile = 'of-project'\n")
    done = shell("hosts", "--list", **job)
    names = [one.partition(":")[0] for one in hosts.split(",")]
    assert done.stdout.split() == names
    (note,) = done.stderr.splitlines()
    assert note.endswith(f" {hosts} (SLURM_JOB_NODELIST)")
    assert shell("hosts", "--list", "-H", "named", **job).stdout == "named\n"
    shell.write("env-hosts", "e\n")
    assert shell("hosts", "--list", IPEXCTL_HOSTFILE="env-hosts", **job).stdout == "e\n"


def test_a_node_list_that_cannot_be_read_is_refused(shell):
    done = shell("hosts", "--list", SLURM_JOB_NODELIST="node[1-")
    assert done.returncode == 2
    assert "SLURM_JOB_NODELIST: " in done.stderr


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
        ("[prune]\nruns = -1\n", "t:2: prune.runs must be a whole number from 0, not -1"),
        ("[prune]\ncopies = 0\n", "t:2: prune.copies must be a whole number from 1, not 0"),
        ("forks = 0\n", "t:1: forks must be a whole number from 1, not 0"),
        ("forks = true\n", "t:1: forks must be a whole number from 1, not true"),
        ("hostfile = 3\n", "t:1: hostfile must be text in quotes, not 3"),
        ("hostfile = ''\n", 't:1: hostfile must be text in quotes, not ""'),
        ("[run]\nppn = 'two'\n", 't:2: run.ppn must be a whole number from 1, not "two"'),
        ("[run]\nenv = 'A_KEY=x'\n", "t:2: run.env must be a table: NAME = 'VALUE'"),
        ("run = 3\n", "t:1: 'run' is not a setting (did you mean 'run.n'?)"),
        ("[run.env]\n'a-b' = 1\n", "t:1: run.env must map variable names to text or numbers"),
        *(
            (
                f"[run]\nenv = {{ A = {word} }}\n",
                "t:2: run.env must map variable names to text or numbers",
            )
            for word in ("false", "true", "1.5")
        ),
        ("a = ", "t: invalid TOML"),
        ("a = " + "[" * 100000, "t: invalid TOML"),
    ],
)
def test_wrong_settings_are_refused_with_their_line(text, what):
    with pytest.raises(InputError) as e:
        parse_settings(text, "t")
    assert e.value.what == what


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("[run\nppn = 1\n", "[run]\nppn = 1\n"),
        ("root = a/b.c*d\n", 'root = "a/b.c*d"\n'),
        ('root = "a\n', 'root = "a"\n'),
        ("root: /a\n", 'root = "/a"\n'),
        ("forks: 3\n", "forks = 3\n"),
        ("[run]\nenv = {A = 'a&b'\n", "[run]\nenv = {A = 'a&b'}\n"),
        ('[run]\nppn = "4"\n', "[run]\nppn = 4\n"),
        ('[run]\nppn = "two"\n', "[run]\nppn = 2\n"),
        ("[run]\nppn = 0\n", "[run]\nppn = 2\n"),
        ("= 3\n", None),
        ("[run]\nppn = [1]\n", None),
    ],
)
def test_the_line_that_corrects_the_settings_can_be_pasted(shell, text, corrected):
    shell.write("ipexctl.toml", text)
    done = shell("config")
    assert done.returncode == 2
    line = done.stderr.partition("  try: ")[2].splitlines()[0]
    if corrected is None:
        assert line.startswith("# ")
        return
    assert why_not_pastable(line) == ""
    change, _, again = line.partition(" && ")
    assert again == "ipexctl config"
    subprocess.run(["bash", "-c", change], cwd=shell.folder, check=True)
    assert (shell.folder / "ipexctl.toml").read_text() == corrected


def test_a_wrong_project_file_stops_every_command_but_help(shell):
    shell.write("ipexctl.toml", "fork = 2\n")
    done = shell("doctor")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.errors[0].what.startswith("ipexctl.toml:1: 'fork' ")
    for words in (["doctor", "--help"], ["help", "doctor"], ["help", "run", "all"]):
        assert shell(*words).returncode == 0


def test_a_home_of_nobody_is_wrong_input(shell):
    shell.write("ipexctl.toml", '# mine\nhostfile = "~nobodyx/hosts"\n')
    done = shell("hosts")
    assert done.returncode == 2
    assert done.errors[0].what.startswith("ipexctl.toml:2: hostfile: ")


@pytest.mark.parametrize("digits", ["9" * 5000, "²", "0", "-1"])
def test_a_number_that_is_none_is_wrong_input(digits, shell):
    with pytest.raises(InputError, match="forks"):
        load_settings({"XDG_CONFIG_HOME": "/nowhere", "IPEXCTL_FORKS": digits}, shell.folder)


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
    assert "forks" in load_settings({"XDG_CONFIG_HOME": "/nowhere"}, folder, notes.append)
    change(file)
    assert "forks" not in load_settings({"XDG_CONFIG_HOME": "/nowhere"}, folder, notes.append)
    assert notes == [f"ignoring {file}: {why.format(folder=shell.folder)}"]


def test_a_group_of_our_own_and_a_sticky_folder_are_no_danger(shell):
    shell.write("ipexctl.toml", "forks = 2\n").chmod(0o664)
    shell.folder.chmod(0o1777)
    assert "forks" in load_settings({"XDG_CONFIG_HOME": "/nowhere"}, shell.folder)


def test_a_program_that_a_foreign_folder_names_is_not_started(shell):
    ran = shell.home / "ran"
    shell.write("hosts", "n1\n")
    shell.write("ssh_config", f'Match exec "touch {ran}"\n  Port 2222\n')
    file = shell.write("ipexctl.toml", "hostfile = 'hosts'\nssh_config = 'ssh_config'\n")
    for path in (shell.folder, *shell.folder.iterdir()):
        give_away(path)
    done = shell("doctor", "--json", "-H", "n1")
    assert any("note: " in line and file.name in line for line in done.stderr.splitlines())
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
        (("doctor", "--json"), "hostfile, ssh_config and root"),
        (("install", "-y"), "hostfile, ssh_config and root"),
        (("run", "-y", "x.py"), "hostfile, ssh_config and root"),
        (("trust", "-y"), "hostfile and ssh_config"),
        (("hosts", "--list"), "hostfile"),
        (("env", "ls", "-f", "mine"), "ssh_config and root"),
        (("shell", "n1", "-f", "mine", "-F", "none"), "root"),
        (("data", "ls", "-H", "a", "--root", "/mine"), "ssh_config"),
        (("shell", "n1", "-F", "none", "--root", "/x"), "hostfile"),
    ],
)
def test_settings_of_a_project_wait_until_they_are_accepted(shell, cloned, words, missing):
    shell.write("mine", "n1\n")
    done = shell(*words)
    assert (done.returncode, "--json" in words) == (2, done.stdout != "")
    assert f"ipexctl.toml: {missing} " in done.errors[0].what
    assert done.errors[0].hint.startswith("ipexctl config --accept")
    assert not cloned.exists()


def test_init_asks_no_ssh_config_of_a_project_that_is_not_accepted(shell, cloned):
    shell("init", "--no-probe", "--force", "a")
    shell("init", "--force", "ssh://127.0.0.1:1")
    assert not cloned.exists()


@pytest.mark.parametrize("change", ["hosts", "ssh_config", "ipexctl.toml"])
def test_what_was_accepted_counts_until_it_changes(shell, cloned, change):
    done = shell("config", "--accept")
    file = f"{shell.folder}/ipexctl.toml"
    assert re.search(rf": hostfile, ssh_config, root \w+ {re.escape(file)}\n", done.stderr)
    used = shell("hosts", "--list")
    assert (used.returncode, used.stdout) == (0, "n1\n")
    (note,) = used.stderr.splitlines()
    assert note.endswith(" hosts (ipexctl.toml:1)")
    first = shell("trust").stderr.splitlines()[0]
    assert first.startswith(f"{note}; ") and first.endswith(" ssh_config (ipexctl.toml:2)")
    with (shell.folder / change).open("a") as f:
        f.write("# changed\n" if change != "ipexctl.toml" else "forks = 2\n")
    again = shell("hosts", "--list")
    kept = change == "ipexctl.toml"  # what it says of hosts and SSH has not changed
    hints = [error.hint.split("   ")[0] for error in again.errors]
    assert (again.returncode, hints) == ((0, []) if kept else (2, ["ipexctl config --accept"]))


def test_options_go_before_settings_that_are_not_accepted(shell, cloned):
    shell.write("mine", "other\n")
    done = shell("hosts", "--list", "-f", "mine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "other\n", "")
    done = shell("hosts", "--list", "-f", "hosts")  # what the file says, but typed
    assert (done.returncode, done.stdout, done.stderr) == (0, "n1\n", "")
    words = ("doctor", "--json", "-H", "ssh://127.0.0.1:1", "-F", "none", "--root", "/mine")
    done = shell(*words)
    assert (done.returncode, "accepted" in done.stderr, cloned.exists()) == (4, False, False)


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"n\n", 2), (b"\n", 2), (b"\x04", 2)])
def test_a_project_is_asked_about_on_a_terminal(shell, cloned, typed, code):
    with answering(typed) as terminal:
        env = {"PATH": os.environ["PATH"], "HOME": str(shell.home), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "ipexctl", "hosts", "--list"], cwd=shell.folder, env=env,
            stdin=terminal.fd, stdout=subprocess.PIPE, stderr=terminal.fd, timeout=60,
        )  # fmt: skip
    shown = terminal.shown.decode()
    assert (done.returncode, done.stdout) == (code, b"n1\n" if not code else b"")
    assert f"hostfile    {shell.folder}/hosts" in shown
    assert shell("hosts", "--list").returncode == code
    assert not cloned.exists()


def test_a_file_that_is_too_large_to_be_looked_at_is_not_accepted(shell, cloned):
    config = shell.folder / "ssh_config"
    config.write_text(config.read_text() + f"# {'x' * 1000}\n" * 17000)
    done = shell("config", "--accept")
    assert (done.returncode, done.slug) == (2, "settings-file-unreadable")
    assert f"{config}: " in done.stderr and "16 MiB" in done.stderr
    assert shell("trust").returncode == 2
    assert not cloned.exists()


@pytest.mark.parametrize(
    ("name", "words", "option"),
    [
        ("hosts", ("hosts", "--list"), "-f"),
        ("hosts", ("run", "x.py"), "-f"),
        ("hosts", ("config", "--accept"), "-f"),
        ("ssh_config", ("doctor", "--json"), "-F"),
        ("ssh_config", ("trust", "-f", "mine"), "-F"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_a_file_of_the_project_that_is_gone_is_named_with_its_line(
    shell, cloned, before, name, words, option
):
    shell.write("mine", "n1\n")
    if before:
        shell("config", "--accept")
    (shell.folder / name).unlink()
    key, line = ("hostfile", 1) if name == "hosts" else ("ssh_config", 2)
    done = shell(*words)
    assert (done.returncode, "--json" in words) == (2, done.stdout != "")
    (error,) = done.errors
    assert f"{key} {shell.folder}/{name}: " in error.what
    assert error.why.startswith(f"ipexctl.toml:{line} ")
    assert error.hint.endswith(f": {option} FILE")
    assert not cloned.exists()


@pytest.mark.parametrize("origin", ["config.toml", "IPEXCTL_HOSTFILE"])
def test_a_hostfile_of_the_users_settings_that_others_can_write_is_refused(shell, origin):
    shell.write("shared", "localhost ansible_connection=local\n").chmod(0o646)
    if origin == "config.toml":
        config = shell.home / ".config" / "ipexctl"
        config.mkdir(parents=True)
        (config / "config.toml").write_text(f'hostfile = "{shell.folder}/shared"\n')
    env = {origin: f"{shell.folder}/shared"} if origin != "config.toml" else {}
    done = shell("hosts", "--list", **env)
    assert (done.returncode, f"{shell.folder}/shared: writable by" in done.stderr) == (2, True)


def test_a_hostfile_of_a_project_that_others_can_write_is_refused(shell, cloned):
    shell("config", "--accept")
    (shell.folder / "hosts").chmod(0o646)
    done = shell("hosts", "--list")
    assert (done.returncode, f"{shell.folder}/hosts: writable by" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "text",
    ["a" + ".a" * 20000 + " = 1", "[" + "a . " * 5000 + "a]", "x = { " + '"".' * 5000 + "a = 1 }"],
)
def test_keys_without_end_cost_nothing(shell, text):
    shell.write("ipexctl.toml", text)
    began = time.monotonic()
    done = shell("hosts")
    assert (done.returncode, "32" in done.errors[0].why) == (2, True)
    assert time.monotonic() - began < 5


def test_long_words_are_no_keys(shell):
    began = time.monotonic()
    for text in ("a" * 500_000, "a " * 250_000, '"' * 500_000, "a" + " " * 500_000, "." * 500_000):
        with pytest.raises(InputError, match="invalid TOML"):
            parse_settings(text, "t")
    assert time.monotonic() - began < 5


def test_an_ssh_config_of_the_settings_that_others_can_write_is_refused(shell, cloned):
    (shell.folder / "ssh_config").chmod(0o646)
    shell("config", "--accept")
    done = shell("trust")
    assert done.returncode == 2
    assert f"{shell.folder}/ssh_config: " in done.errors[0].what
    assert f"try: chmod go-w {shell.folder}/ssh_config" in done.stderr
    (shell.folder / "ssh_config").chmod(0o644)
    shell.folder.parent.chmod(0o777)
    done = shell("doctor", "--json")
    assert f"try: chmod go-w {shell.folder.parent}\n" in done.stderr
