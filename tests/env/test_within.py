"""env exec and shell: commands and people in the environment, whatever start files say."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ipexctl.shell.shell import remote_line
from tests.env.test_envs import A
from tests.install.conftest import REPO, Outcome, Shop
from tests.processes import gone

SHOW = 'echo "$0|$1|$2"; command -v python; echo wrong >&2; exit ${3:-0}'


def made(root: Path) -> Path:
    """An environment as `run.run_environment.find` wants it."""
    env = root / "envs" / A
    (env / "bin").mkdir(parents=True)
    for name in ("python", "tool"):
        (env / "bin" / name).write_text("#!/bin/sh\necho made-up $0\n")
        (env / "bin" / name).chmod(0o755)
    (env / ".ipexctl-ok").write_text("{}")
    (root / "current").symlink_to(f"envs/{A}")
    return env


def env_exec(shop: Shop, *words: str, **environ: str) -> Outcome:
    return shop.ipexctl("env", "exec", "--root", str(shop.root), *words, **environ)


def test_a_command_gets_its_words_as_they_are_and_the_environments_path(shop: Shop) -> None:
    env = made(shop.root)
    done = env_exec(shop, "--json", "--", "sh", "-c", SHOW, "a  b", "$HOME;", "--json")
    (host,) = done.document["hosts"]
    assert (done.code, host["stdout"], host["stderr"]) == (
        0, ["a  b|$HOME;|--json", f"{env}/bin/python"], ["wrong"],
    )  # fmt: skip


def test_each_line_stands_behind_its_hosts_name_and_a_failure_ends_with_1(shop: Shop) -> None:
    made(shop.root)
    done = env_exec(shop, "sh", "-c", SHOW, "x", "", "", "3")
    host = done.out.partition(":")[0]
    assert (done.code, done.out.splitlines()[0]) == (1, f"{host}: x||")
    which, *said = done.err.splitlines()
    assert f" {A} (project unknown," in which
    assert f" ipexctl.lock in {shop.work}" in which
    assert said == [
        f"{host}: wrong",
        f"{host}  failed       exit 3",
        "ok=0 changed=0 unreachable=0 failed=1 skipped=0",
    ]


REFUSED = [
    (("no-such-program",), "cannot run no-such-program"),
    (("sh", "-c", "kill -9 $$"), "exit 137"),
]


@pytest.mark.parametrize(("command", "said"), REFUSED)
def test_what_cannot_run_or_is_killed_is_told(
    shop: Shop, command: tuple[str, ...], said: str
) -> None:
    made(shop.root)
    done = env_exec(shop, "--", *command)
    assert (done.code, said in done.err) == (1, True), done.err


def test_another_pythons_folders_of_the_login_shell_are_not_passed_on(shop: Shop) -> None:
    made(shop.root)
    others = {"PYTHONHOME": "/no-home", "PYTHONPATH": f"{REPO}:/no-path"}
    said = env_exec(shop, "--", "env", **others)
    assert said.code == 0, said.err
    assert "no-home" not in said.out and "no-path" not in said.out


def test_without_an_environment_the_next_command_is_told(shop: Shop) -> None:
    for done in (
        env_exec(shop, "--", "true"),
        shop.ipexctl("env", "exec", "--root", str(shop.root), "--json", "--", "true"),
    ):
        assert (done.code, f"ipexctl install --root {shop.root}" in done.out + done.err) == (
            1,
            True,
        )


def test_the_hosts_own_pip_does_not_install_from_an_environment(shop: Shop) -> None:
    env, pip = made(shop.root), shop.folder / "pip"
    pip.write_text('#!/bin/sh\necho "the host\'s own, $PIP_REQUIRE_VIRTUALENV"\n')
    pip.chmod(0o755)
    path = {"PATH": f"{pip.parent}:{os.environ['PATH']}"}
    asked = ("env", "exec", "--root", str(shop.root), "--")
    refused = shop.ipexctl(*asked, "pip", "install", "numpy", **path)
    assert (refused.code, refused.out) == (1, "")
    assert f" pip in {env}/bin" in refused.err
    assert f"ipexctl install --root {shop.root} -r requirements.txt " in refused.err
    by_shell = shop.ipexctl(*asked, "sh", "-c", "pip install numpy", **path)
    assert by_shell.out.endswith(": the host's own, 1\n")
    (env / "bin" / "pip").write_text("#!/bin/sh\necho the environment\n")
    (env / "bin" / "pip").chmod(0o755)
    assert shop.ipexctl(*asked, "pip", "list", **path).out.endswith(": the environment\n")


def test_what_a_command_leaves_in_the_background_ends_with_it(shop: Shop) -> None:
    made(shop.root)
    done = env_exec(shop, "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
    pid = int(done.out.split()[-1])
    assert gone(pid)


# --- a person's shell ----------------------------------------------------------------------------

ENV = (("PATH", "/e nv/bin"), ("LD_LIBRARY_PATH", "/e nv/lib"), ("I_MPI_ROOT", "/e nv"))
RESET = "PATH=/usr/bin:/bin; export PATH; LD_LIBRARY_PATH=/old; export LD_LIBRARY_PATH\n"
START = {
    "bash": (".bashrc", RESET + "alias mine='echo from my alias'\n"),
    "zsh": (".zshrc", RESET + "alias mine='echo from my alias'\n"),
    "dash": (".shrc", RESET + "alias mine='echo from my alias'\n"),
    "fish": (
        ".config/fish/config.fish",
        "set -gx PATH /usr/bin /bin\nset -gx LD_LIBRARY_PATH /old\n"
        "alias mine 'echo from my alias'\n",
    ),
}


@pytest.mark.parametrize("login", START)
def test_start_files_are_read_and_do_not_undo_the_path(tmp_path: Path, login: str) -> None:
    program = Path("/usr/bin", login)
    if not program.exists():
        pytest.skip(f"{login} is not on this machine")
    file, text = START[login]
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    (home / file).parent.mkdir(parents=True)
    scratch.mkdir()
    (home / file).write_text(text)
    environ = {
        "HOME": str(home), "SHELL": str(program), "PATH": "/usr/bin:/bin", "TERM": "dumb",
        "TMPDIR": str(scratch), "ENV": str(home / ".shrc"),
    }  # fmt: skip
    done = subprocess.run(
        ["/bin/sh", "-c", remote_line(ENV, ())], env=environ, text=True, capture_output=True,
        input="mine\nenv\nexit 7\n", timeout=60,
    )  # fmt: skip
    said = done.stdout.splitlines()
    assert "from my alias" in said, done.stderr
    found = dict(line.split("=", 1) for line in said if "=" in line)
    assert found["PATH"].startswith("/e nv/bin:/usr/bin:/bin")
    library = found["LD_LIBRARY_PATH"]
    assert library == "/old" if login == "fish" else library.startswith("/e nv/lib:/old")
    assert found["I_MPI_ROOT"] == "/e nv"
    assert done.returncode == 7
    assert list(scratch.iterdir()) == []
    assert not [name for name in found if name.startswith("IPEXCTL_")]


def test_a_shell_is_refused_without_a_terminal(shop: Shop) -> None:
    done = shop.ipexctl("shell", "localhost", "--root", str(shop.root))
    assert (done.code, done.slug) == (2, "no-terminal")


MAKE = """
set -e
r=~trainer/within; mkdir -m 700 -p $r/envs/{a}/bin
printf '#!/bin/sh\\n' > $r/envs/{a}/bin/python; chmod 755 $r/envs/{a}/bin/python
ln -s envs/{a} $r/current; chown -R trainer $r
"""


@pytest.mark.lab
def test_over_ssh_a_host_that_fails_is_one_of_many(namespaces, shop: Shop, lab3) -> None:
    where = ["-f", str(lab3.hostfile), "-F", str(lab3.ssh_config), "--root", "~/within"]
    try:
        for host in ("node01", "node02"):
            lab3.run_in(host, ["sh", "-c", MAKE.format(a=A)])
        command = ["sh", "-c", 'hostname; test "$(hostname)" != node02']
        done = shop.ipexctl("env", "exec", *where, "--json", "--", *command)
        document = json.loads(done.out)
        assert (done.code, [(h["code"], h["stdout"]) for h in document["hosts"]]) == (
            1, [(0, ["node01"]), (1, ["node02"])],
        )  # fmt: skip
        assert [h["host"] for h in document["failed"]] == ["node02", "node03"]
    finally:
        for host in lab3.hosts:
            lab3.run_in(host, ["sh", "-c", "rm -rf ~trainer/within"])
