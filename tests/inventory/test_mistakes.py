"""Hosts and hostfiles as they are mistyped: what failed, why, and what to type next."""

from __future__ import annotations

import json

import pytest

from ipexctl.errors import IpexctlError

HOSTS = "node01\nnode02\n"


def refusal(done) -> IpexctlError:
    """The error of a command that did nothing; its last lines on stderr are what to type."""
    assert (done.returncode, done.stdout) == (2, "")
    (error,) = done.errors
    assert done.stderr.endswith(f"{error.hint.splitlines()[-1]}\n" if error.hint else "\n")
    return error


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("hosts", "-n", "2", "train.py"), "run -f hosts -n 2 train.py"),
        (("-n", "2", "hosts", "train.py", "--lr", "1"), "run -n 2 -f hosts train.py --lr 1"),
        (("--env", "HF_TOKEN=x", "hosts"), "run --env HF_TOKEN -f hosts train.py"),
        (("hosts", "-m", "pkg.train"), "run -f hosts -m pkg.train"),
    ],
)
def test_a_hostfile_as_script(shell, args, hint):
    shell.write("hosts", HOSTS)
    shell.write("train.py", "print(1)\n")
    error = refusal(shell("run", *args))
    assert (error.what.split()[0], error.hint) == ("hosts", f"ipexctl {hint}")


@pytest.mark.parametrize(
    ("typed", "what", "meant"),
    [
        ("trian.py", "there is no script trian.py", "train.py"),
        ("src", "src is a folder", "src/main.py"),
        ("x/train.py", "there is no script x/train.py", "train.py"),
        ("nope.py", "there is no script nope.py", ""),
    ],
)
def test_a_mistyped_script_is_told_with_the_one_that_is_there(shell, typed, what, meant):
    shell.write("train.py", "")
    shell.write("src/main.py", "")
    error = refusal(shell("run", "-H", "a", "-n", "2", typed, "--lr", "1"))
    assert error.what == what
    command = f"ipexctl run -H a -n 2 {meant} --lr 1"
    assert error.hint == (command if meant else "# scripts there: train.py")


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("pip install datasets", "ipexctl install -r requirements.txt"),
        ("python3 -m pip install datasets", "ipexctl install -r requirements.txt"),
        (
            "pip install intel_extension_for_pytorch==2.8.0 -f https://wheels.example/cpu",
            "ipexctl install --stack ipex   # if your code needs it; otherwise: ipexctl install",
        ),
        (
            "accelerate config",
            "# ipexctl run -f HOSTFILE -ppn RANKS_PER_HOST SCRIPT; --accelerate FILE: its config",
        ),
        ("accelerate env", "ipexctl env exec -- accelerate env"),
        ("fabric consolidate out/x.ckpt", "ipexctl env exec -- fabric consolidate out/x.ckpt"),
        (
            "uv run train.py",
            "ipexctl run -H a train.py\n# -n sets the number of ranks, -ppn that of each host",
        ),
        ("sbatch --nodes 2 job.slurm", "ipexctl migrate job.slurm"),
    ],
)
def test_a_program_that_is_no_script_is_told_with_the_command_for_it(shell, typed, hint):
    assert refusal(shell("run", "-H", "a", *typed.split())).hint == hint


def test_a_package_that_is_given_as_a_requirements_file(shell):
    first, _, then = refusal(shell("install", "-H", "a", "-r", "torchvision")).hint.partition("; ")
    assert first == "echo torchvision >> requirements.txt"
    assert then == "ipexctl install -H a -r requirements.txt"


@pytest.mark.parametrize(("name", "text"), [("train", "import torch\n"), ("train.py", "node01\n")])
def test_a_script_is_no_hostfile(shell, name, text):
    shell.write(name, text)
    assert "missing" in shell("run", "-f", "missing", name).errors[0].what


@pytest.mark.parametrize("verb", ["install", "doctor", "hosts", "trust", "env ls", "data ls"])
def test_a_hostfile_as_host(shell, verb):
    shell.write("hosts", HOSTS)
    as_file, as_host = refusal(shell(*verb.split(), "hosts", "-l", "node01")).hint.splitlines()
    assert as_file == f"ipexctl {verb} -f hosts -l node01"
    assert as_host.startswith("-H hosts ")


def test_a_hostfile_with_a_mistake_in_it_is_one_all_the_same(shell):
    shell.write("my/hosts.txt", "node01 slot=2\n")
    assert refusal(shell("install", "my/hosts.txt")).hint == "ipexctl install -f my/hosts.txt"


def test_a_host_may_be_called_like_a_file_that_is_no_hostfile(shell):
    shell.write("node01", "epoch 1 loss 2.0\n")
    done = shell("hosts", "node01", "--list")
    assert (done.returncode, done.stdout) == (0, "node01\n")


def test_a_host_may_be_called_like_a_hostfile_if_one_says_so(shell):
    shell.write("hosts", HOSTS)
    done = shell("hosts", "-H", "hosts", "--list")
    assert (done.returncode, done.stdout) == (0, "hosts\n")


# --- no hostfile ---------------------------------------------------------------------------------

INIT = "# ipexctl init HOST HOST ... writes a hostfile here"


def test_a_missing_hostfile_names_the_folder_and_what_is_like_it(shell):
    shell.write("hosts.txt", HOSTS)
    shell.write("train.py", "")
    error = refusal(shell("run", "-f", "host.txt", "train.py"))
    assert ("host.txt" in error.what, str(shell.folder) in error.what) == (True, True)
    assert error.why.endswith(": hosts.txt")
    assert error.hint.splitlines() == ["ipexctl run -f hosts.txt train.py", INIT]


def test_a_missing_hostfile_where_nothing_is_like_it(shell):
    error = refusal(shell("doctor", "-f", "a/b"))
    assert error.what.endswith(f" {shell.folder}/a")
    assert (error.why, error.hint) == ("", INIT)


def test_a_folder_as_hostfile_names_the_one_in_it(shell):
    shell.write("conf/hosts", HOSTS)
    error = refusal(shell("doctor", "-f", "conf"))
    assert ("conf" in error.what, error.hint) == (True, "-f conf/hosts")


def test_without_hosts_this_machine_is_used_and_a_hostfile_here_is_pointed_out(shell):
    assert shell("hosts", "--list").stderr == ""
    shell.write("hosts", HOSTS)
    done = shell("hosts", "--list")
    assert (done.returncode, done.stdout) == (0, "localhost\n")
    (note,) = done.stderr.splitlines()
    assert note.startswith("ipexctl: note: ") and note.endswith(": -f hosts")


# --- names that are no hosts ----------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-x", "-l"])
def test_a_mistyped_host_is_told_with_the_nearest_one_and_its_line(shell, option):
    shell.write("hosts.txt", "# rack 4\nnode01\nnode02 slots=2\n")
    error = refusal(shell("doctor", "-f", "hosts.txt", option, "nod02"))
    assert error.slug == "no-host-matches"
    assert [word in error.what for word in ("hosts.txt", "'nod02'", "'node02'")] == [True] * 3
    assert error.why.startswith("hosts.txt:3 ")
    command, *lists = error.hint.splitlines()
    assert command == f"ipexctl doctor -f hosts.txt {option} node02"
    assert [line.split(": ")[1] for line in lists] == [
        "node[01-02]",
        "@healthy, @last-failed",
    ]


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_a_name_that_cannot_be_resolved_is_told_with_its_line(shell, transport):
    shell.write("hosts.txt", "# rack 4\nlocalhosst.invalid\nnoed7.invalid\n")
    done = shell("doctor", "-f", "hosts.txt", "-F", "none", "--transport", transport, "--json")
    one = json.loads(done.stdout)["hosts"][1]["error"]
    assert one["slug"] == "name-not-resolved"
    assert one["why"].startswith("hosts.txt:3: ")
    assert "noed7.invalid" in one["hint"] and "-F" not in one["hint"]


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_a_forgotten_ssh_config_beside_the_hostfile_is_pointed_out(shell, transport):
    shell.write("my lab/hostfile", "n1.invalid\nn2.invalid\nn3.invalid\n")
    shell.write("my lab/config", "Host *.other\n  Port 1\n")
    config = "".join(f"Host n{i}.invalid\n  HostName 127.0.0.1\n  Port 1\n" for i in (1, 2))
    shell.write("my lab/ssh_config", config)
    lab = ("doctor", "-f", "my lab/hostfile", "--transport", transport, "--json")
    done = shell(*lab)
    errors = [host["error"] for host in json.loads(done.stdout)["hosts"]]
    assert {e["slug"] for e in errors} == {"name-not-resolved"}
    add = "add -F 'my lab/ssh_config',"
    command = "ipexctl doctor -f 'my lab/hostfile' --transport {} --json '--ssh-config={}'"
    command = command.format(transport, "my lab/ssh_config")
    for error in errors[:2]:
        line, words = error["hint"].splitlines()
        assert (line, words.startswith(add)) == (command, True)
    assert "-F" not in errors[2]["hint"]
    done = shell(*lab, "-F", "my lab/ssh_config")
    errors = [host["error"] for host in json.loads(done.stdout)["hosts"]]
    assert [e["slug"] == "name-not-resolved" for e in errors] == [False, False, True]
    done = shell("run", "-f", "my lab/hostfile", "-x", "n3.invalid", "--no-sync", "train.py")
    again = "ipexctl run '--ssh-config=my lab/ssh_config' -f 'my lab/hostfile' -x n3.invalid"
    command, words = done.stderr.splitlines()[-2:]
    assert command == f"  try: {again} --no-sync train.py"
    assert words.strip().startswith(f"# {add}")


def test_the_ssh_config_of_the_hostfiles_project_is_pointed_out(shell):
    """As `init -F` writes it: the ssh_config lies elsewhere."""
    shell.write("lab/cfg", "Host n1.invalid\n  HostName 127.0.0.1\n  Port 1\n")
    shell.write("project/ipexctl.toml", 'hostfile = "hosts"\nssh_config = "../lab/cfg"\n')
    shell.write("project/hosts", "n1.invalid\n")
    done = shell("env", "ls", "-f", "project/hosts", "--json")
    (host,) = json.loads(done.stdout)["failed"]
    add = next(note for note in host["notes"] if "add -F" in note)
    line, words = add.removeprefix("try: ").splitlines()
    assert line == "ipexctl env ls -f project/hosts --json --ssh-config=lab/cfg"
    assert words.startswith(f"# add -F {shell.folder}/lab/cfg,")


def test_a_name_that_the_given_ssh_config_has_is_not_looked_for_in_another(shell):
    for name in ("cfg", "ssh_config"):
        shell.write(name, "Host n1.invalid\n  Port 22\n")
    done = shell("doctor", "-H", "n1.invalid", "-F", "cfg", "--json")
    assert "add -F" not in json.loads(done.stdout)["hosts"][0]["error"]["hint"]
    done = shell("doctor", "-H", "n1.invalid", "--json")
    assert "add -F ssh_config," in json.loads(done.stdout)["hosts"][0]["error"]["hint"]


def test_what_is_suggested_for_unknown_health_has_the_hostfile_and_not_the_limit(shell):
    shell.write("my hosts", HOSTS)
    error = refusal(shell("install", "-f", "my hosts", "-l", "@healthy"))
    assert error.slug == "hosts-not-checked"
    assert error.hint.split("   # ")[0] == "ipexctl doctor -f 'my hosts'"


# --- encodings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "what"), [("utf-16", "line 1: byte 0xff"), ("latin-1", "line 2: byte 0xf6")]
)
def test_another_encoding_is_refused_with_the_command_that_converts_it(shell, encoding, what):
    file = shell.write("my hosts", "")
    file.write_bytes("node01\nnode02 # Köln, Rack 4\n".encode(encoding))
    error = refusal(shell("hosts", "-f", "my hosts"))
    assert (error.slug, what in error.what) == ("not-utf8", True)
    assert error.hint.startswith("iconv -f WINDOWS-1252 -t UTF-8 'my hosts' > 'my hosts.utf8'")


def test_a_mark_of_utf_8_is_no_part_of_a_host(shell):
    shell.write("hosts", "").write_bytes("\ufeffnode01\n".encode())
    assert shell("hosts", "-f", "hosts", "--list").stdout == "node01\n"


def test_a_binary_file_is_not_a_hostfile(shell):
    shell.write("hosts", "").write_bytes(b"node01\nab\0cd\n")
    error = refusal(shell("hosts", "-f", "hosts"))
    assert (error.slug, "line 2 " in error.what) == ("nul-character", True)


# --- init ----------------------------------------------------------------------------------------

NAME_THEM = "# ipexctl init HOST HOST ... names them\nipexctl init localhost   # this machine alone"


def test_init_without_an_ssh_config_says_which_file_it_looked_for(shell):
    error = refusal(shell("init"))
    assert (error.slug, error.hint) == ("no-hosts-chosen", NAME_THEM)
    assert "~/.ssh/config" in error.why
    shell.write("cfg", "Host *\n  User x\n")
    error = refusal(shell("init", "-F", "cfg", "-y"))
    assert error.hint == NAME_THEM.replace("ipexctl init", "ipexctl init -F cfg")
    error = refusal(shell("init", "--user", "-F", "cfg"))
    assert error.hint == NAME_THEM.replace("ipexctl init", "ipexctl init --user -F cfg")
    assert (error.slug, error.why.split()[0]) == ("no-hosts-chosen", "cfg")


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_init_of_this_machine_needs_no_ssh(shell, name):
    done = shell("init", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert (shell.folder / "hostfile").read_text() == f"{name} ansible_connection=local\n"
    assert '"local": true' in shell("hosts", "--json").stdout


def test_this_machine_under_a_name_that_others_have_too_is_refused_among_hosts(shell):
    error = refusal(shell("init", "--no-probe", "localhost", "node2"))
    assert error.slug == "localhost-among-hosts"
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_a_host_that_ssh_config_has_in_another_case_is_suggested(shell, transport):
    shell.write("ssh_config", "Host n1.invalid\n  HostName 127.0.0.1\n  Port 1\n")
    words = ("--transport", transport, "-F", "ssh_config", "--json")
    (host,) = json.loads(shell("doctor", "-H", "N1.invalid", *words).stdout)["hosts"]
    assert host["error"]["slug"] == "name-not-resolved"
    assert "'n1.invalid'" in host["error"]["hint"]


def test_no_lab_is_named_where_no_file_of_the_project_is_of_it(shell):
    config = "Host n1.invalid\n  HostName 127.0.0.1\n"
    lab = shell.home / ".local/state/ipexctl/labs/others"
    lab.mkdir(parents=True)
    (lab / "ssh_config").write_text(config)
    (host,) = json.loads(shell("doctor", "-H", "n1.invalid", "--json").stdout)["hosts"]
    assert "n1.invalid" in host["error"]["hint"] and "-F" not in host["error"]["hint"]
