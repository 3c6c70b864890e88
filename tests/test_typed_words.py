"""What people type in the words of other tools."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ipexctl import __version__
from ipexctl.base import sizes
from ipexctl.base.shell_line import shell_line
from ipexctl.base.sizes import seconds_of
from tests.cli import Ended, ipexctl
from tests.pastable import why_not_pastable


@pytest.fixture
def typed(tmp_path: Path):
    def run(*words: str, path: str = "") -> Ended:
        return ipexctl(*words, cwd=tmp_path, env={"PATH": path, "HOME": str(tmp_path)})

    return run


def test_help_and_version_are_commands_too(typed) -> None:
    assert typed("help").stdout == typed("--help").stdout
    assert typed("help", "env", "rm").stdout == typed("env", "rm", "--help").stdout
    assert typed("help", "run", "all").stdout == typed("run", "--help", "all").stdout
    assert typed("version").stdout == f"ipexctl {__version__}\n"


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (("uninstall",), "No such command 'uninstall'. Did you mean 'remove'?"),
        (("RUN",), "No such command 'RUN'. Did you mean 'run'?"),
        (("Doctor",), "No such command 'Doctor'. Did you mean 'doctor'?"),
        (("lab", "list"), "No such command 'list'. Did you mean 'status'?"),
        (("logs", "bert", "--tail", "2"), "No such option: --tail. Did you mean -n?"),
        (("logs", "bert", "--flolow"), "--flolow. Did you mean --follow?"),
        (("run", "-pnp", "2", "t.py"), "No such option: -pnp. Did you mean -ppn?"),
        (("run", "--nodes", "2", "t.py"), "No such option: --nodes. Did you mean --limit?"),
        (("stop",), "Missing argument RUN. For example: ipexctl stop bert"),
        (("wait", "bert", "--timeout", "5"), "No such option: --timeout"),
        (("stop", "a", "b"), "(b). ipexctl stop takes one RUN"),
        (("logs", "a", "b"), "(b). ipexctl logs takes one RUN"),
        (("logs", "-f", "hosts", "bert"), "for a hostfile, use --hostfile FILE"),
        (("run", "--helpp", "t.py"), "--helpp. Did you mean --help?"),
        (("run", "--stal", "9", "t.py"), "--stal. Did you mean --stall?"),
    ],
)
def test_the_word_that_was_meant_is_named_and_no_other(typed, words, end) -> None:
    done = typed(*words)
    said = done.stderr.partition("\n  try:")[0].rstrip()
    assert (done.returncode, said.endswith(end)) == (2, True), done.stderr


def offered(text: str) -> list[str]:
    """Return the lines after `try:`."""
    lines = text.partition("\n  try: ")[2].splitlines()
    return [line.strip() for line in lines]


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("rnu -n 2 t.py", "run -n 2 t.py"),
        ("instal --torch 2.12", "install --torch 2.12"),
        ("runs -a", "ps -a"),
        ("statu", "ps"),
        ("lab lst", "lab status"),
        ("lab start -n 3", "lab up -n 3"),
        ("lab up 3", "lab up -n 3"),
        ("lab stop", "lab down"),
        ("lab rm --all", "lab down --all"),
        ("upgrade", "install --upgrade"),
        ("update --torch 2.12", "install --upgrade --torch 2.12"),
        ("--hlep", "--help"),
        ("run -n two t.py", "run -n 2 t.py"),
        ("run -n0 t.py", "run -n1 t.py"),
        ("run --np=0 t.py -n 0", "run --np=1 t.py -n 0"),
        ("run --timeout 5mins t.py", "run --timeout 5m t.py"),
        ("queue -n 1 t.py", "run --queue -n 1 t.py"),
        ("accelerate launch t.py", "run accelerate launch t.py"),
        ("mpirun -n 1 python t.py", "run mpirun -n 1 python t.py"),
        ("mpiexec -n 1 t.py", "run mpiexec -n 1 t.py"),
        ("deepspeed t.py", "run deepspeed t.py"),
        ("srun -n 3 python t.py", "run -n 3 t.py"),
        ("python3 t.py --lr 1", "run t.py --lr 1"),
        ("t.py", "run t.py"),
        ("stpo bert", "stop bert"),
        ("env lst", "env ls"),
        ("run --timout 10m t.py", "run --timeout 10m t.py"),
        ("run --timout=10m t.py", "run --timeout=10m t.py"),
        ("run -pnp 2 t.py --pnp", "run -ppn 2 t.py --pnp"),
        ("logs bert --tail 2", "logs bert -n 2"),
        ("data push src --name set", "data push src --as set"),
        ("run --nproc_per_node 2 --nnodes 3 t.py",
         "run --nproc_per_node 2 torchrun --nnodes 3 t.py"),
        ("run --map-by node -np 3 t.py", "run mpirun --map-by node -np 3 t.py"),
        ("run --num_processes=3 t.py", "run accelerate launch --num_processes=3 t.py"),
    ],
)  # fmt: skip
def test_the_corrected_command_is_offered_and_is_one(typed, tmp_path, line, corrected) -> None:
    done = typed(*line.split())
    assert (done.returncode, offered(done.stderr)) == (2, [f"ipexctl {corrected}"]), done.stderr
    assert why_not_pastable(f"ipexctl {corrected}") == ""


@pytest.mark.parametrize(
    "line", ["zzz", "rmall x", "prunes-all", "run --nodes 2 t.py", "run --zzz t.py", "run"]
)
def test_no_command_is_offered_where_none_can_be_known(typed, line) -> None:
    done = typed(*line.split())
    assert (done.returncode, offered(done.stderr)) == (2, [])


def test_the_scripts_of_the_folder_are_offered_where_none_is_named(typed, tmp_path) -> None:
    (tmp_path / "model.py").touch()
    assert offered(typed("run", "-n", "2").stderr) == ["ipexctl run -n 2 model.py"]
    (tmp_path / "train.py").touch()
    both = [f"ipexctl run {name}" for name in ("train.py", "model.py")]
    assert offered(typed("run").stderr) == both
    (tmp_path / "data.py").touch()
    assert offered(typed("run").stderr) == ["ipexctl run train.py"]


@pytest.mark.parametrize(
    ("rest", "required"),
    [
        ("a = p.parse_args()", " --model small --epochs 1"),
        ("a, _ = p.parse_known_args()", ""),  # it is not certain what the script takes
        ("import sys; sys.argv.append('--model=large'); p.parse_args()", ""),
    ],
)
def test_an_offered_script_has_the_arguments_that_it_requires(typed, tmp_path, rest, required):
    (tmp_path / "train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\n"
        "p.add_argument('--model', required=True, choices=['small', 'large'])\n"
        f"p.add_argument('--epochs', type=int, required=True)\n{rest}\n"
    )
    assert offered(typed("run", "-n", "2").stderr) == [f"ipexctl run -n 2 train.py{required}"]


def test_an_offered_script_whose_arguments_only_the_reader_knows_stands_behind_a_hash(
    typed, tmp_path
) -> None:
    (tmp_path / "train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--data-dir', required=True)\np.parse_args()\n"
    )
    line = "# ipexctl run -n 2 train.py --data-dir DATA_DIR"
    assert offered(typed("run", "-n", "2").stderr) == [line]


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("run --lr 0.2 train.py --data x", "run train.py --data x --lr 0.2"),
        ("run -n 2 --lr=0.2 train.py", "run -n 2 train.py --lr=0.2"),
        ("run --fast train.py", "run train.py --fast"),
        ("run --fast 3 train.py", ""),  # 3 is none of its words
        ("run --wide 1 2 train.py", ""),  # how many words it takes is not certain
        ("run --zzz train.py", ""),
        ("run --lr 0.2 missing.py", ""),
    ],
)
def test_an_option_of_the_script_goes_behind_it(typed, tmp_path, line, corrected) -> None:
    (tmp_path / "train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\n"
        "p.add_argument('--fast', action='store_true')\np.add_argument('--data')\n"
        "p.add_argument('--wide', nargs='*')\np.parse_args()\n"
    )
    done = typed(*line.split())
    lines = [f"ipexctl {corrected}"] if corrected else []
    assert (done.returncode, offered(done.stderr)) == (2, lines), done.stderr
    assert ("It is an option of train.py" in done.stderr) is bool(corrected)


def test_a_run_that_is_resumed_has_its_own_script_and_arguments(typed, tmp_path) -> None:
    state = tmp_path / ".local/state/ipexctl"
    state.mkdir(parents=True)
    for name in ("train.py", "other.py"):
        (tmp_path / name).touch()
    runs = {
        f"20261130-12000{i}-abcdef": {
            "options": ["run", "--name", name], "script": script.split(), "folder": str(folder),
            "spares": [],
        }
        for i, (name, script, folder) in enumerate([
            ("bert", "train.py --model old", tmp_path),
            ("bert", "train.py --model 'a b'", tmp_path),
            ("gpt", "other.py", tmp_path),
            ("there", "train.py", tmp_path / "elsewhere"),
        ])
    }  # fmt: skip
    (state / "typed-runs.json").write_text(json.dumps(runs))
    for words, line in (
        ("-n 2 --resume bert", "-n 2 --resume bert train.py --model "),
        ("--resume=brt", "--resume=bert train.py --model "),
        ("--resume 20261130-120002-abcdef", "--resume 20261130-120002-abcdef other.py"),
    ):
        (first,) = offered(typed("run", *words.split()).stderr)
        assert first.startswith(f"ipexctl run {line}") and not why_not_pastable(first), first
        assert "old" not in first
    for words in ("--resume there", "--resume zzz", "--resume 20261130-120009-abcdef"):
        both = [f"ipexctl run {words} {name}" for name in ("train.py", "other.py")]
        assert offered(typed("run", *words.split()).stderr) == both


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("torchrun --bogus t.py", "launcher-option-unknown"),
        ("--accelerate none.yaml t.py", "accelerate-config-unreadable"),
        ("accelerate launch --config_file none.yaml t.py", "accelerate-config-unreadable"),
    ],
)
def test_what_is_refused_before_click_reads_the_options_is_json_too(typed, line, slug) -> None:
    done = typed("run", "--json", *line.split())
    (error,) = json.loads(done.stdout)["errors"]
    assert (done.returncode, done.slug, error["slug"]) == (2, slug, slug)
    without = typed("run", *line.split(), "--json")
    assert (without.slug, without.stdout) == (slug, "")


def test_a_word_that_is_no_host_may_be_a_package(typed) -> None:
    path = os.environ["PATH"]  # with ssh, which says how a host is reached
    assert "-r FILE" in typed("install", "einops-invalid", path=path).stderr
    assert "-r FILE" not in typed("install", "node7.invalid", path=path).stderr
    assert "--torch 2.12" in typed("install", "torch==2.12").errors[0].hint
    for package in ("numpy<2", "transformers[torch]>=4.40", "trl~=0.9"):
        assert "-r FILE" in typed("install", package).errors[0].hint
    assert "node1" in typed("install", "n=4").errors[0].hint


def test_trust_without_hosts_says_so(typed) -> None:
    done = typed("trust")
    assert (done.errors, done.stdout, " -f or -H" in done.stderr) == ([], "", True)


def test_a_project_of_a_lab_that_is_down_says_which(typed, tmp_path) -> None:
    gone = tmp_path / "state/labs/mine"
    (tmp_path / "ipexctl.toml").write_text(f"ssh_config = '{gone}/ssh_config'\n")
    done = typed("doctor")
    assert done.slug == "lab-not-running"
    assert "--name mine" in done.errors[0].hint


def test_a_script_is_no_play(typed) -> None:
    done = typed("play", "train.py")
    assert (done.returncode, done.slug) == (2, "not-a-play")
    assert "run train.py" in done.errors[0].hint


@pytest.mark.parametrize("verb", ["attach", "logs", "metrics", "wait"])
def test_without_a_run_the_newest_is_meant(typed, verb) -> None:
    assert f"Usage: ipexctl {verb} [OPTIONS] [RUN]" in typed(verb, "--help").stdout
    done = typed(verb, "--root", "nowhere-at-all")
    assert (done.returncode, "Missing" in done.stderr) == (2, False), done.stderr


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("job.sh", "python train.py\n", "ipexctl migrate job.sh"),
        ("job", "#!/usr/bin/env bash\n", "ipexctl migrate job"),
        ("nb.ipynb", "{}", "jupyter nbconvert --to script nb.ipynb"),
    ],
)
def test_a_file_of_another_kind_is_no_script(typed, tmp_path, name, text, hint) -> None:
    (tmp_path / name).write_text(text)
    done = typed("run", name)
    assert done.slug == "not-a-script"
    assert done.errors[0].hint.splitlines()[0] == hint


def test_a_script_without_a_suffix_is_one(typed, tmp_path) -> None:
    (tmp_path / "train").write_text("#!/usr/bin/env python3\n")
    assert typed("run", "train").slug != "not-a-script"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-n", "0"), "must be at least 1"),
        (("-ppn", "two"), "'two' is not a whole number. For example: --ppn 2"),
        (("--ui", "fancy"), "auto, stream, plain, json"),
        (("--env", "NOT_SET"), "try: # --env NOT_SET=VALUE"),
    ],
)
def test_wrong_values_are_found_before_anything_starts(typed, tmp_path, words, said) -> None:
    (tmp_path / "t.py").write_text("")
    done = typed("run", *words, "t.py")
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_requirements_file_is_no_host(typed, tmp_path) -> None:
    (tmp_path / "requirements.txt").write_text("tqdm\n")
    done = typed("install", "requirements.txt", "--yes")
    assert done.slug == "file-as-host"
    assert done.errors[0].hint.splitlines()[0] == "ipexctl install -r requirements.txt --yes"


def test_explain_takes_a_pasted_message(typed) -> None:
    done = typed("explain", "OSError: [Errno 98] Address already in use")
    assert (done.returncode, "(master-port-taken)" in done.stdout) == (0, True)
    done = typed("explain", "nothing of this is known")
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 1)


def test_what_to_fetch_is_asked_of_the_run_that_was_typed(typed) -> None:
    lines = [f"ipexctl fetch 'a b' {what}" for what in ("'out/*.pt'", "--checkpoint last")]
    assert offered(typed("fetch", "a b").stderr) == lines


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("data push datset", "data push dataset"),
        ("data push datset --as x", "data push dataset --as x"),
        ("data pull openai/gsm8k", "data pull hf:openai/gsm8k"),
        ("install -r reqs.txt", "install -r requirements.txt"),
        ("run -i hosts t.py", "run -f hosts t.py"),
        ("run --env NOT_SET 2 t.py", "run --env NOT_SET=2 t.py"),
        ("install torch==2.13", "install --torch 2.13   # instead of torch==2.13"),
        ("doctor --level fast", "doctor --level quick"),
        ("ps --state runing", "ps --state running"),
        ("play play", "play play.yaml"),
    ],
)
def test_what_is_here_is_offered_in_place_of_what_is_not(typed, tmp_path, line, corrected) -> None:
    (tmp_path / "dataset").mkdir()
    for name, text in (
        ("requirements.txt", "tqdm\n"),
        ("t.py", ""),
        ("hosts", "a\nb\n"),
        ("play.yaml", ""),
    ):
        (tmp_path / name).write_text(text)
    done = typed(*line.split(), path=os.environ["PATH"])
    assert done.errors[0].hint.splitlines()[0] == f"ipexctl {corrected}", done.stderr
    assert why_not_pastable(f"ipexctl {corrected}") == ""


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("run torchrun --nproc-per-nod 1 t.py", "run torchrun --nproc-per-node 1 t.py"),
        ("run torchrun --nproc_per_nod=1 t.py", "run torchrun --nproc-per-node=1 t.py"),
        ("run mpirun --bnid-to core -np 3 t.py", "run mpirun --bind-to core -np 3 t.py"),
        ("run -ppn 1 mpirun -mca btl tcp python t.py", "run -ppn 1 mpirun python t.py"),
        # several mistakes: all of them, or none
        ("run torchrun --nproc_per_node=gpu --nnodes=1:3 t.py",
         "run torchrun --nproc_per_node=auto --nnodes=3 t.py"),
        ("run accelerate launch --multi_gpu --mixed_precision fp8 t.py",
         "run accelerate launch --mixed_precision bf16 t.py"),
        ("run mpirun --bnid-to core --zzz 3 t.py", None),
        ("run srun -n 3 python t.py --lr 1", "run -n 3 t.py --lr 1"),
        ("run srun -N 2 --mpi=pmi2 python t.py --lr 1", "run -n 2 -ppn 1 t.py --lr 1"),
        ("run srun -w a,b --ntasks=4 -N2 t.py", "run -l a,b -n 4 -ppn 2 t.py"),
        ("run srun -N 2 torchrun t.py", "run torchrun t.py"),
        ("run mpirun -n 2 numactl -C 0 t.py", "run mpirun -n 2 t.py"),
        ("run nohup torchrun --nproc-per-nod 2 t.py", "run torchrun --nproc-per-node 2 t.py"),
        ("run srun hostname", None),
        ("run mpirun -n 2", "run mpirun -n 2 t.py"),
        ("run torch.distributed.run t.py", "run -m torch.distributed.run t.py"),
        ("run mpirun -wdir no-folder t.py", None),
    ],
)  # fmt: skip
def test_a_pasted_line_is_offered_as_it_is_accepted(typed, tmp_path, line, corrected) -> None:
    (tmp_path / "t.py").touch()
    done = typed(*line.split())
    lines = offered(done.stderr)
    assert (done.returncode, lines[0][:1] == "#") == (2, corrected is None), done.stderr
    if corrected:
        assert (lines[0], why_not_pastable(lines[0])) == (f"ipexctl {corrected}", "")


def test_a_line_with_another_folder_is_offered_there(typed, tmp_path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/t.py").touch()
    (first, *_) = offered(typed("run", "mpirun", "-wdir", "a b", "python", "t.py").stderr)
    assert (first, why_not_pastable(first)) == ("cd 'a b' && ipexctl run mpirun python t.py", "")


@pytest.mark.parametrize(
    "line", ["data push nothing", "install -r reqs.txt", "run -f hosts t.py", "init", "run t.py"]
)
def test_no_placeholder_is_offered_as_a_command(typed, line) -> None:
    done = typed(*line.split(), path=os.environ["PATH"])
    lines = [shell_line(line) for error in done.errors for line in error.hint.splitlines()]
    commands = [line for line in lines if not line.startswith("#")]
    assert done.returncode != 0 and lines
    placeholders = re.compile(r"\b(node1|node2|SCRIPT|DIR|PACKAGE|HOSTFILE)\b|hf:ORG")
    assert [line for line in commands if placeholders.search(line)] == []


@pytest.mark.parametrize("text, seconds", [("90", 90), ("1h30m", 5400), ("2m0.5s", 120.5)])
def test_durations(text, seconds) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "5x", "1h30", "-1", "1 h", "9" * 10])
def test_what_is_no_duration(text) -> None:
    assert seconds_of(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"), (7.5, "8 s"), (59.6, "1 min"), (119.7, "2 min"), (200.0, "3 min 20 s"),
        (3599.6, "1 h"), (7550.0, "2 h 6 min"), (7200 + 59.6 * 60, "3 h"), (-1.0, "0 s"),
        (86400 * 2 - 60, "2 d"), (90000.0, "1 d 1 h"),
    ],
)  # fmt: skip
def test_durations_are_rounded(seconds, text) -> None:
    assert sizes.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (7.46, "7.5 s"), (59.97, "1 min"), (75.0, "1 min 15 s")]
)
def test_short_durations_have_a_tenth(seconds, text) -> None:
    assert sizes.short_duration(seconds) == text
