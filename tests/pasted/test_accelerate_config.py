"""Accelerate configs of every version: what they say about a run, and what cannot hold."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.run.command.command_line_words import remove_launcher, spell_for_click
from ipexctl.run.script_files import accelerate_file

ALONE = """\
compute_environment: LOCAL_MACHINE
distributed_type: 'NO'
downcast_bf16: 'no'
ipex_config:
  ipex: true
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 1
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: true
"""
SEVERAL = """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_CPU
downcast_bf16: 'no'
ipex_config:
  ipex: true
machine_rank: 0
main_process_ip: 36.112.23.24
main_process_port: 29500
main_training_function: main
mixed_precision: bf16
mpirun_config:
  mpirun_ccl: '1'
  mpirun_hostfile: /home/user/hostfile
num_machines: 4
num_processes: 16
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: true
"""
FIRST = """\
compute_environment: LOCAL_MACHINE
deepspeed_config: {}
distributed_type: MULTI_CPU
downcast_bf16: 'no'
fsdp_config: {}
ipex_config:
  ipex_enabled: true
  ipex_fusion_enabled: false
machine_rank: 0
main_process_ip: null
main_process_port: null
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 4
rdzv_backend: static
same_network: true
use_cpu: true
"""
BF16 = "--env ACCELERATE_MIXED_PRECISION=bf16"
CPU = "--env ACCELERATE_USE_CPU=true"


def expanded(text: str, *own: str) -> str:
    Path("c.yaml").write_text(text)
    words = spell_for_click(["run", "--accelerate", "c.yaml", *own, "t.py"])
    assert words[-1] == "t.py"
    return shlex.join(words[1 : words.index("--accelerate")])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ALONE, f"-n 1 --ppn 1 {BF16} {CPU}"),
        (ALONE.replace("processes: 1", "processes: 8"), f"-n 1 --ppn 1 {BF16} {CPU}"),
        (SEVERAL, f"-f /home/user/hostfile -n 16 --ppn 4 {BF16} --env CCL_WORKER_COUNT=1 {CPU}"),
        # as a guide prints it, its indents lost
        (SEVERAL.replace("  ", ""),
         f"-f /home/user/hostfile -n 16 --ppn 4 {BF16} --env CCL_WORKER_COUNT=1 {CPU}"),
        (FIRST, f"-n 4 --ppn 4 {BF16} {CPU}"),
        ("num_processes: -1\nuse_cpu: no\n", ""),
        ('{"num_processes": 2, "mixed_precision": "no"}',
         "-n 2 --env ACCELERATE_MIXED_PRECISION=no"),
        ("dynamo_config:\n  dynamo_backend: INDUCTOR\n  dynamo_use_dynamic: true\n",
         "--env ACCELERATE_DYNAMO_BACKEND=INDUCTOR --env ACCELERATE_DYNAMO_USE_DYNAMIC=True"),
        ("dynamo_backend: 'NO'\ndebug: true\n", "--env ACCELERATE_DEBUG_MODE=true"),
        ("fp16: true\n", "--env ACCELERATE_MIXED_PRECISION=fp16"),
    ],
)  # fmt: skip
def test_what_a_config_says(text: str, said: str) -> None:
    assert expanded(text) == said


def test_a_hostfile_of_the_users_folder(home: Path) -> None:
    assert expanded("mpirun_config: {mpirun_hostfile: ~/hosts}\n") == f"-f {home}/home/hosts"


def test_numbers_of_a_config_for_one_process_are_ignored_with_a_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    expanded(ALONE.replace("processes: 1", "processes: 8"))
    assert "num_processes: 8 (with distributed_type: NO" in " ".join(
        capsys.readouterr().err.split()
    )


def test_the_note_names_what_died(capsys: pytest.CaptureFixture[str]) -> None:
    expanded(SEVERAL, "-n", "3", "-H", "a")
    said = " ".join(capsys.readouterr().err.split())
    for part in (
        "ipexctl: note: c.yaml: --env ACCELERATE_MIXED_PRECISION=bf16",
        "ignored: ipex_config.ipex: yes (Accelerate removed IPEX; bf16 needs no ipex.optimize)",
        "main_process_port: 29500 (ipexctl chooses a free port)",
        "mpirun_hostfile /home/user/hostfile of c.yaml is overridden by -H a",
        "num_machines 4 num_processes 16 of c.yaml is overridden by -n 3",
    ):
        assert part in said


UNSUPPORTED = "accelerate-key-unsupported"


@pytest.mark.parametrize(
    ("text", "slug", "begins"),
    [
        ("distributed_type: MULTI_GPU", UNSUPPORTED, "1:19: distributed_type: MULTI_GPU "),
        ("distributed_type: FSDP", UNSUPPORTED, "1:19: distributed_type: FSDP "),
        ("fsdp_config:\n  fsdp_version: 2", UNSUPPORTED, "2:17: fsdp_config.fsdp_version: 2 "),
        ("deepspeed_config:\n  zero_stage: 3", UNSUPPORTED,
         "2:15: deepspeed_config.zero_stage: 3 "),
        ("gpu_ids: 0,1", UNSUPPORTED, "1:10: gpu_ids: 0,1 "),
        ("tpu_env: [A]", UNSUPPORTED, "1:10: tpu_env: ... "),
        ("mixed_precision: fp8", UNSUPPORTED, "1:18: mixed_precision: fp8 "),
        ("num_process: 2", "accelerate-key-unknown",
         "1:14: unknown key num_process (did you mean 'num_processes'?)"),
        ("num_processes: 5\nnum_machines: 2", "ranks-not-divisible",
         " 5 ranks cannot be divided evenly among 2 hosts"),
        ("num_processes: many", "not-a-count", "1:16: num_processes: many: "),
        ("use_cpu: perhaps", "unknown-value", "1:10: use_cpu: perhaps: "),
        ("- a", "not-an-accelerate-config", "1:1: "),
    ],
)  # fmt: skip
def test_what_cannot_hold_is_refused_with_its_place(text: str, slug: str, begins: str) -> None:
    with pytest.raises(InputError) as e:
        expanded(text)
    assert e.value.slug == slug
    assert e.value.what.startswith(f"c.yaml:{begins}")


def test_it_is_where_accelerate_looks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert accelerate_file.find_accelerate_file({"HOME": str(home)}) is None
    file = home / "home/.cache/huggingface/accelerate/default_config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(ALONE)
    launch = ["run", "accelerate", "launch"]
    assert remove_launcher([*launch, "t.py"]) == ["run", "--accelerate", str(file), "t.py"]
    assert "--accelerate" not in remove_launcher([*launch, "--cpu", "t.py"])
    assert remove_launcher(["run", "--accelerate", "x", *launch[1:], "t.py"]) == [
        "run", "--accelerate", "x", "t.py",
    ]  # fmt: skip
    monkeypatch.setenv("HF_HOME", str(home / "elsewhere"))
    assert remove_launcher([*launch, "t.py"]) == ["run", "t.py"]


def test_options_of_accelerate_launch_win_over_its_config() -> None:
    Path("c.yaml").write_text(SEVERAL)
    line = "accelerate launch --config_file c.yaml --num_machines 2 --mixed_precision no t.py"
    words = remove_launcher(["run", *line.split()])
    assert shlex.join(words) == (
        "run -n 16 -ppn 8 --env ACCELERATE_MIXED_PRECISION=no --accelerate c.yaml t.py"
    )
    words = spell_for_click(words)
    assert "ACCELERATE_MIXED_PRECISION=bf16" not in words
    assert words.count("-n") == 1


def test_a_config_that_is_missing_is_named() -> None:
    with pytest.raises(InputError) as e:
        remove_launcher(["run", "accelerate", "launch", "--config_file", "nowhere.yaml", "t.py"])
    assert "nowhere.yaml" in e.value.what and "--config_file" in e.value.hint
