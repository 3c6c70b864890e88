"""Files shaped like those of guides and examples: all that is printed for them is in expected/."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import venv
from pathlib import Path

import pytest

from ipexctl.migrate.migrate import migrate
from tests.cli import ipexctl
from tests.migrate.record import CASES, HERE, printed

REFUSING = "127.0.0.[1-4]"
ELSEWHERE = re.compile(r"HOSTFILE|worker\.py|package\.train|\$")  # not in the folder of the cases
ELSEWHERE_HOSTS = re.compile(r"hostfile|mpirun\.yaml|lost_indentation\.yaml")


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "cases", tmp_path / "cases"))


@pytest.mark.parametrize("name", CASES)
def test_what_is_printed_for_a_file_is_as_recorded(cases: Path, name: str) -> None:
    assert printed(cases, name) == (HERE / "expected" / f"{name}.txt").read_text("utf-8")


def commands() -> list[str]:
    found = migrate([str(HERE / "cases" / name) for name in CASES])
    return [
        command.text
        for file in found.files
        for command in file.reading.commands
        if command.text and not ELSEWHERE.search(command.text.replace("$DATA", ""))
    ]


COMMANDS = sorted({text.replace(f"{HERE / 'cases'}/", "") for text in commands()})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cases beside a virtual environment with a stand-in for torch."""
    folder = tmp_path_factory.mktemp("project")
    venv.create(folder / "env", symlinks=True)
    site = next((folder / "env/lib").glob("python3*")) / "site-packages"
    (site / "torch").mkdir()
    (site / "torch/__init__.py").write_text("")
    (folder / "home").mkdir()
    shutil.copytree(HERE / "cases", folder / "cases")
    (folder / "cases/hostfile").write_text(f"{REFUSING} port=1\n")
    return folder


@pytest.mark.parametrize("text", COMMANDS)
def test_every_command_is_one_that_run_explains(project: Path, text: str) -> None:
    """One with other hosts gets as far as these, which refuse."""
    words = shlex.split(text.replace("$DATA", "/data"))
    assert words[:2] == ["ipexctl", "run"]
    env = {
        "HOME": str(project / "home"), "PATH": "/usr/bin:/bin", "HF_TOKEN": "x", "DATA": "/data",
        "CCL_WORKER_COUNT": "1", "VIRTUAL_ENV": str(project / "env"),
    }  # fmt: skip
    done = ipexctl("run", "--explain", *words[2:], cwd=project / "cases", env=env)
    if ELSEWHERE_HOSTS.search(text):
        assert done.returncode == 4, done.stderr
        assert "4 of 4 hosts" in done.stderr
    else:
        asked = words[words.index("-n") + 1] if "-n" in words else "[0-9]+"
        assert done.returncode == 0, done.stderr
        assert re.match(rf"{asked} ranks? on 1 host", done.stdout)


def test_there_are_commands_with_and_without_hosts() -> None:
    local = [text for text in COMMANDS if not ELSEWHERE_HOSTS.search(text)]
    assert len(local) > 15 and len(COMMANDS) - len(local) >= 5


# --- a command line ------------------------------------------------------------------------------

QA = "mpirun -f hostfile -n 4 -ppn 2 -genv TASK=qa python3 run_qa.py --do_train --no_cuda"
LINES = {
    QA: "ipexctl run mpirun -f hostfile -n 4 -ppn 2 -genv TASK=qa python3 run_qa.py --do_train "
    "--use_cpu",
    "python3 run_qa.py --do_train --use_ipex": "ipexctl run run_qa.py --do_train",
    "run_qa.py --use_ipex --do_train": "ipexctl run run_qa.py --do_train",
    "torchrun --nnodes 2 --nproc-per-node=4 train.py --no-cuda": "ipexctl run -f HOSTFILE torchrun "
    "--nnodes 2 --nproc-per-node=4 train.py --no-cuda",
    "LR=0.1 mpiexec.hydra -n 2 python -m package.train -v": "ipexctl run LR=0.1 mpiexec.hydra -n 2 "
    "python -m package.train -v",
    "mpirun -n 2 python train.py --name 'a b'": "ipexctl run mpirun -n 2 python train.py --name "
    "'a b'",
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("as_one", [True, False], ids=["one word", "words"])
def test_a_command_line_becomes_one_of_ipexctl(cases: Path, line: str, as_one: bool) -> None:
    words = [line] if as_one and not line.startswith("run_qa") else shlex.split(line)
    done = ipexctl("migrate", "--json", *words, cwd=cases)
    (command,) = json.loads(done.stdout)["commands"]
    assert command["text"] == LINES[line]
    changed = any(word in line for word in ("--no_cuda", "use_ipex"))
    assert done.returncode == int(changed)


@pytest.mark.parametrize("words", [["nosuch.py"], ["ls", "-l"], ["mpirun", "-n", "2", "hostname"]])
def test_what_is_neither_a_path_nor_a_launcher_line_is_refused(words: list[str]) -> None:
    done = ipexctl("migrate", *words)
    assert (done.returncode, done.slug, done.stdout) == (2, "path-missing", "")
    assert done.errors[0].what.startswith(f"{words[0]}: ")
