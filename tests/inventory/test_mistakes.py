"""Hosts and hostfiles as they are mistyped: what failed, why, and what to type next."""

from __future__ import annotations

import json

import pytest

from tests.answering_terminal import answering

HOSTS = "node01\nnode02\n"


def said(done) -> tuple[int, list[str]]:
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("hosts", "-n", "2", "train.py"), "run -f hosts -n 2 train.py"),
        (("-n", "2", "hosts", "train.py", "--lr", "1"), "run -n 2 -f hosts train.py --lr 1"),
        (("--env", "HF_TOKEN=x", "hosts"), "run --env HF_TOKEN -f hosts SCRIPT"),
        (("hosts", "-m", "pkg.train"), "run -f hosts -m pkg.train"),
    ],
)
def test_a_hostfile_as_script(shell, args, hint):
    shell.write("hosts", HOSTS)
    shell.write("train.py", "print(1)\n")
    assert said(shell("run", *args)) == (
        2,
        [
            "ipexctl: hosts is a hostfile, not a script",
            "  why: a hostfile is given with -f",
            f"  try: ipexctl {hint}",
        ],
    )


@pytest.mark.parametrize(
    ("typed", "what", "meant"),
    [
        ("trian.py", "there is no script trian.py", "train.py"),
        ("src", "src is a folder", "src/main.py"),
        ("x/y.py", "there is no script x/y.py", "SCRIPT"),
        ("x/train.py", "there is no script x/train.py", "train.py"),
        ("nope.py", "there is no script nope.py", "SCRIPT"),
        ("src/nope.py", "there is no script src/nope.py", "SCRIPT"),
    ],
)
def test_a_mistyped_script_is_told_with_the_one_that_is_there(shell, typed, what, meant):
    shell.write("train.py", "")
    shell.write("src/main.py", "")
    code, lines = said(shell("run", "-H", "a", "-n", "2", typed, "--lr", "1"))
    assert (code, lines[0]) == (2, f"ipexctl: {what}")
    assert lines[-1] == f"  try: ipexctl run -H a -n 2 {meant} --lr 1"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("pip install datasets", "ipexctl install -r requirements.txt"),
        ("python3 -m pip install datasets", "ipexctl install -r requirements.txt"),
        (
            "pip install intel_extension_for_pytorch==2.8.0",
            "ipexctl install --stack ipex   # if your code needs it; otherwise: ipexctl install",
        ),
        (
            "accelerate config",
            "ipexctl run -f HOSTFILE -ppn RANKS_PER_HOST SCRIPT; or --accelerate FILE, its config",
        ),
        ("accelerate env", "ipexctl env exec -- accelerate env"),
        ("fabric consolidate out/x.ckpt", "ipexctl env exec -- fabric consolidate out/x.ckpt"),
        ("trl sft --lr 1", "ipexctl run -m trl.scripts.sft --lr 1"),
        ("uv run trl sft --lr 1", "ipexctl run -m trl.scripts.sft --lr 1"),
        ("-m trl sft", "ipexctl run -m trl.scripts.sft"),
        ("sbatch --nodes 2 job.slurm", "ipexctl migrate job.slurm"),
    ],
)
def test_a_program_that_is_no_script_is_told_with_the_command_for_it(shell, typed, hint):
    code, lines = said(shell("run", "-H", "a", *typed.split()))
    assert code == 2
    assert any(line.endswith("is not a Python script") for line in lines)
    assert lines[-1] == f"  try: {hint}"


def test_accelerate_test_is_refused_with_what_tests_the_hosts(shell):
    """One of its checks passes only where all ranks write into one folder."""
    code, lines = said(shell("run", "-H", "a", "accelerate", "test"))
    assert (code, lines[0]) == (2, "ipexctl: accelerate is not a Python script")
    assert [line.split("   # ")[0].removeprefix("  try:").strip() for line in lines[2:]] == [
        "ipexctl doctor --level std",
        "ipexctl run -l HOST -n 2 -m accelerate.test_utils.scripts.test_script",
    ]


def test_a_package_that_is_given_as_a_requirements_file(shell):
    code, lines = said(shell("install", "-H", "a", "-r", "torchvision"))
    assert (code, lines[0]) == (2, "ipexctl: no such requirements file: torchvision")
    first, _, then = lines[-1].partition("; ")
    assert first == "  try: echo torchvision >> requirements.txt"
    assert then == "ipexctl install -H a -r requirements.txt"


@pytest.mark.parametrize(("name", "text"), [("train", "import torch\n"), ("train.py", "node01\n")])
def test_a_script_is_no_hostfile(shell, name, text):
    shell.write(name, text)
    assert "is a hostfile" not in shell("run", "-f", "missing", name).stderr


@pytest.mark.parametrize("verb", ["install", "doctor", "hosts", "trust", "env ls", "data ls"])
def test_a_hostfile_as_host(shell, verb):
    shell.write("hosts", HOSTS)
    code, lines = said(shell(*verb.split(), "hosts", "-l", "node01"))
    assert (code, lines[:4]) == (
        2,
        [
            "ipexctl: hosts is a hostfile, not the name of a host",
            "  why: a hostfile is given with -f",
            f"  try: ipexctl {verb} -f hosts -l node01",
            "       -H hosts   # if there is also a host with this name",
        ],
    )


def test_a_hostfile_with_a_mistake_in_it_is_one_all_the_same(shell):
    shell.write("my/hosts.txt", "node01 slot=2\n")
    code, lines = said(shell("install", "my/hosts.txt"))
    assert (code, lines[2:]) == (2, ["  try: ipexctl install -f my/hosts.txt"])


def test_a_host_may_be_called_like_a_file_that_is_no_hostfile(shell):
    shell.write("node01", "epoch 1 loss 2.0\n")
    done = shell("hosts", "node01", "--list")
    assert (done.returncode, done.stdout) == (0, "node01\n")


def test_a_host_may_be_called_like_a_hostfile_if_one_says_so(shell):
    shell.write("hosts", HOSTS)
    done = shell("hosts", "-H", "hosts", "--list")
    assert (done.returncode, done.stdout) == (0, "hosts\n")


# --- no hostfile ---------------------------------------------------------------------------------

INIT = "ipexctl init node1 node2   # writes a hostfile here"


def test_a_missing_hostfile_names_the_folder_and_what_is_like_it(shell):
    shell.write("hosts.txt", HOSTS)
    shell.write("train.py", "")
    assert said(shell("run", "-f", "host.txt", "train.py")) == (
        2,
        [
            f"ipexctl: cannot read the hostfile host.txt: there is no such file in {shell.folder}",
            "  why: similar names there: hosts.txt",
            "  try: -f hosts.txt",
            f"       {INIT}",
        ],
    )


def test_a_missing_hostfile_where_nothing_is_like_it(shell):
    code, lines = said(shell("doctor", "-f", "a/b"))
    assert (code, lines) == (
        2,
        [
            f"ipexctl: cannot read the hostfile a/b: there is no folder {shell.folder}/a",
            f"  try: {INIT}",
        ],
    )


def test_a_folder_as_hostfile_names_the_one_in_it(shell):
    shell.write("conf/hosts", HOSTS)
    code, lines = said(shell("doctor", "-f", "conf"))
    assert (code, lines) == (
        2,
        ["ipexctl: cannot read the hostfile conf: it is a folder", "  try: -f conf/hosts"],
    )


def test_without_hosts_this_machine_is_used_and_a_hostfile_here_is_pointed_out(shell):
    assert shell("hosts", "--list").stderr == ""
    shell.write("hosts", HOSTS)
    done = shell("hosts", "--list")
    assert (done.returncode, done.stdout) == (0, "localhost\n")
    assert done.stderr == (
        "ipexctl: note: no hosts given, so this machine is used; for those in hosts: -f hosts\n"
    )


# --- names that are no hosts ----------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-x", "-l"])
def test_a_mistyped_host_is_told_with_the_nearest_one_and_its_line(shell, option):
    shell.write("hosts.txt", "# rack 4\nnode01\nnode02 slots=2\n")
    assert said(shell("doctor", "-f", "hosts.txt", option, "nod02")) == (
        2,
        [
            "ipexctl: no host or group in hosts.txt matches 'nod02' (did you mean 'node02'?)",
            "  why: hosts.txt:3 has node02",
            "  try: available hosts: node[01-02]",
            "       available groups: @healthy, @last-failed",
        ],
    )


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_a_name_that_cannot_be_resolved_is_told_with_its_line_and_a_known_one(shell, transport):
    shell.write("hosts.txt", "# rack 4\nlocalhosst.invalid\nnoed7.invalid\n")
    shell.write("cfg", "Host node7.invalid\n  Port 22\n")
    done = shell("doctor", "-f", "hosts.txt", "-F", "cfg", "--transport", transport, "--json")
    one = json.loads(done.stdout)["hosts"][1]["error"]
    assert one["what"] == "noed7.invalid: the name noed7.invalid cannot be resolved"
    assert one["why"].startswith("hosts.txt:3: ")
    assert one["hint"] == (
        "in hosts.txt:3 write node7.invalid, if you meant that host\n"
        "getent hosts noed7.invalid   # or give its address as HostName in ssh_config"
    )


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_a_host_that_is_given_already_is_not_suggested(shell, transport):
    shell.write("cfg", "".join(f"Host node{i}.invalid\n  Port 22\n" for i in (1, 2)))
    for given, hint in (
        ("node1", ["write node2.invalid, if you meant that host"]),
        ("node[1-2]", []),
    ):
        names = f"{given}.invalid,nod1.invalid"
        done = shell("doctor", "-H", names, "-F", "cfg", "--transport", transport, "--json")
        *_, one = json.loads(done.stdout)["hosts"]
        look = "getent hosts nod1.invalid   # or give its address as HostName in ssh_config"
        assert one["error"]["hint"].splitlines() == [*hint, look]


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_a_forgotten_ssh_config_beside_the_hostfile_is_pointed_out(shell, transport):
    shell.write("my lab/hostfile", "n1.invalid\nn2.invalid\nn3.invalid\n")
    shell.write("my lab/config", "Host *.other\n  Port 1\n")
    config = "".join(f"Host n{i}.invalid\n  HostName 127.0.0.1\n  Port 1\n" for i in (1, 2))
    shell.write("my lab/lab.ssh", config)
    lab = ("doctor", "-f", "my lab/hostfile", "--transport", transport, "--json")
    done = shell(*lab)
    errors = [host["error"] for host in json.loads(done.stdout)["hosts"]]
    assert all(e["what"].endswith("cannot be resolved") for e in errors)
    add = "add -F 'my lab/lab.ssh', which defines the hosts"
    assert [e["hint"] for e in errors[:2]] == [add] * 2
    assert "-F" not in errors[2]["hint"]
    done = shell(*lab, "-F", "my lab/lab.ssh")
    errors = [host["error"] for host in json.loads(done.stdout)["hosts"]]
    assert [e["what"].endswith("cannot be resolved") for e in errors] == [False, False, True]
    done = shell("run", "-f", "my lab/hostfile", "-x", "n3.invalid", "--no-sync", "train.py")
    assert done.stderr.splitlines()[-1] == f"  try: {add}"


def test_the_ssh_config_of_the_hostfiles_project_is_pointed_out(shell):
    """As `init -F` writes it: the ssh_config lies elsewhere."""
    shell.write("lab/cfg", "Host n1.invalid\n  HostName 127.0.0.1\n  Port 1\n")
    shell.write("project/ipexctl.toml", 'hostfile = "hosts"\nssh_config = "../lab/cfg"\n')
    shell.write("project/hosts", "n1.invalid\n")
    done = shell("env", "ls", "-f", "project/hosts", "--json")
    (host,) = json.loads(done.stdout)["failed"]
    add = next(note for note in host["notes"] if "add -F" in note)
    assert add == f"try: add -F {shell.folder}/lab/cfg, which defines the hosts"


def test_a_name_that_the_given_ssh_config_has_is_not_looked_for_in_another(shell):
    for name in ("cfg", "ssh_config"):
        shell.write(name, "Host n1.invalid\n  Port 22\n")
    done = shell("doctor", "-H", "n1.invalid", "-F", "cfg", "--json")
    assert "add -F" not in json.loads(done.stdout)["hosts"][0]["error"]["hint"]
    done = shell("doctor", "-H", "n1.invalid", "--json")
    assert "add -F ssh_config," in json.loads(done.stdout)["hosts"][0]["error"]["hint"]


def test_what_is_suggested_for_unknown_health_has_the_hostfile_and_not_the_limit(shell):
    shell.write("my hosts", HOSTS)
    code, lines = said(shell("install", "-f", "my hosts", "-l", "@healthy"))
    assert (code, lines[1]) == (
        2,
        "  try: ipexctl doctor -f 'my hosts'   # checks the hosts and remembers the result",
    )


# --- encodings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "what", "hint"),
    [
        ("utf-16", "its encoding is UTF-16, not UTF-8", "iconv -f UTF-16 "),
        ("utf-16-le", "its encoding is UTF-16LE, not UTF-8", "iconv -f UTF-16LE "),
        ("utf-16-be", "its encoding is UTF-16BE, not UTF-8", "iconv -f UTF-16BE "),
        ("utf-32", "its encoding is UTF-32, not UTF-8", "iconv -f UTF-32 "),
        ("latin-1", "line 2: byte 0xf6 is not UTF-8", "iconv -f WINDOWS-1252 "),
    ],
)
def test_another_encoding_is_named_with_the_command_that_converts_it(shell, encoding, what, hint):
    file = shell.write("my hosts", "")
    file.write_bytes("node01\nnode02 # Köln, Rack 4\n".encode(encoding))
    code, lines = said(shell("hosts", "-f", "my hosts"))
    assert (code, lines[0]) == (2, f"ipexctl: cannot read my hosts: {what}")
    assert lines[-1] == f"  try: {hint}-t UTF-8 'my hosts' > 'my hosts.utf8'"


def test_a_mark_of_utf_8_is_no_part_of_a_host(shell):
    shell.write("hosts", "").write_bytes("\ufeffnode01\n".encode())
    assert shell("hosts", "-f", "hosts", "--list").stdout == "node01\n"


def test_a_binary_file_is_not_a_hostfile(shell):
    shell.write("hosts", "").write_bytes(b"node01\nab\0cd\n")
    code, lines = said(shell("hosts", "-f", "hosts"))
    assert (code, lines[0]) == (
        2,
        "ipexctl: cannot read hosts: line 2 has a NUL byte, so this is not a text file",
    )


# --- init ----------------------------------------------------------------------------------------

NAME_THEM = "  try: ipexctl init node1 node2   # or: ipexctl init localhost"


def test_init_without_an_ssh_config_says_which_file_it_looked_for(shell):
    assert said(shell("init")) == (
        2,
        ["ipexctl: no hosts given", "  why: ~/.ssh/config does not exist", NAME_THEM],
    )
    shell.write("cfg", "Host *\n  User x\n")
    assert said(shell("init", "-F", "cfg", "-y")) == (
        2,
        [
            "ipexctl: no hosts given",
            "  why: cfg has no Host line with a name",
            NAME_THEM.replace("init node1", "init -F cfg node1"),
        ],
    )


def test_init_without_an_ssh_config_asks_for_names_on_a_terminal(shell):
    with answering(ahead=b"node1 node[3-4]\n") as terminal:
        done = shell("init", "--no-probe", stdin=terminal.fd)
    assert (done.returncode, (shell.folder / "hostfile").read_text()) == (
        0,
        "node1\nnode3\nnode4\n",
    )
    assert "no hosts to choose from: ~/.ssh/config does not exist\nNames or" in done.stderr


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_init_of_this_machine_needs_no_ssh(shell, name):
    done = shell("init", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert (shell.folder / "hostfile").read_text() == f"{name} ansible_connection=local\n"
    assert '"local": true' in shell("hosts", "--json").stdout


def test_this_machine_under_a_name_that_others_have_too_is_refused_among_hosts(shell):
    code, lines = said(shell("init", "--no-probe", "localhost", "node2"))
    assert (code, lines[:2]) == (
        2,
        [
            "ipexctl: localhost cannot be combined with other hosts",
            "  why: on every host, localhost means that host itself",
        ],
    )
    assert list(shell.folder.iterdir()) == []
