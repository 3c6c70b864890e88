"""Lines of other launchers after `ipexctl run`: what each becomes, and what is refused."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipexctl.errors import InputError
from ipexctl.local.shipped_tables import known_launchers
from ipexctl.run.command.command_line_words import remove_launcher, spell_for_click
from ipexctl.user_code.launchers.launcher_table import Flag, Launcher
from ipexctl.user_code.launchers.line_request import TypedOptions
from ipexctl.user_code.launchers.pasted_line import is_launch, read_pasted_line
from ipexctl.user_code.launchers.translated_line import translate_line

QA = "--model_name_or_path bert-large-uncased --dataset_name squad --do_train --do_eval"
DDP = "--no_cuda --ddp_backend ccl --use_ipex"


def became(line: str) -> str:
    return shlex.join(remove_launcher(["run", *shlex.split(line)])).removeprefix("run ")


TAKEN = [
    # the lines of the guides: Accelerate's IPEX page, Transformers' multi-CPU page
    ("accelerate launch my_script.py --args_to_my_script", "my_script.py --args_to_my_script"),
    ("mpirun -f hostfile -n 16 -ppn 4 accelerate launch examples/nlp_example.py",
     "-f hostfile -n 16 -ppn 4 examples/nlp_example.py"),
    (f"mpirun -n 2 -genv OMP_NUM_THREADS=23 python3 run_qa.py {QA} {DDP}",
     f"-n 2 --env OMP_NUM_THREADS=23 run_qa.py {QA} {DDP}"),
    (f"mpirun -f hostfile -n 4 -ppn 2 -genv OMP_NUM_THREADS=23 python3 run_qa.py {QA} {DDP} --bf16",
     f"-f hostfile -n 4 -ppn 2 --env OMP_NUM_THREADS=23 run_qa.py {QA} {DDP} --bf16"),
    ("torchrun --nnodes 3 --max-restarts=3 t.py", "-n 3 -ppn 1 --restarts 3 t.py"),
    ("accelerate launch --max_restarts 2 t.py", "--restarts 2 t.py"),
    # Python
    ("train.py --lr 1", "train.py --lr 1"),
    ("python3 train.py --lr 1", "train.py --lr 1"),
    ("/usr/bin/python3.11 -u -m pkg.train x", "-m pkg.train x"),
    ("python -W ignore -X dev -OO t.py",
     "--env PYTHONWARNINGS=ignore --env PYTHONDEVMODE=1 --env PYTHONOPTIMIZE=2 t.py"),
    # Intel MPI, MPICH
    ("mpiexec.hydra -np 4 -perhost 2 -hosts a,b python t.py", "-H a,b -n 4 -ppn 2 t.py"),
    ("mpiexec -machinefile m --np=4 python t.py", "-f m -n 4 t.py"),
    ("mpirun -hosts-group n[01-04] -rr python t.py", "-H 'n[01-04]' -ppn 1 t.py"),
    ("mpirun -genv A 1 -env B=2 -genvlist C,D python t.py",
     "--env A=1 --env B=2 --env C --env D t.py"),
    ("mpirun -genv A '1 = 2' python t.py", "--env 'A=1 = 2' t.py"),
    ("mpirun -n 2 -np 4 -genv A=1 -genv A=2 python t.py", "-n 4 --env A=1 --env A=2 t.py"),
    # Open MPI
    ("mpirun -np 4 --hostfile h -x PATH -x A=1 --map-by ppr:2:node:PE=4 python t.py",
     "-f h -n 4 -ppn 2 --env PATH --env A=1 t.py"),
    ("orterun -c 4 -H a:2,b:2 -N 2 python t.py", "-H a:2,b:2 -n 4 -ppn 2 t.py"),
    ("prterun --host a --host b --timeout 60 python t.py", "-H a -H b --timeout 60 t.py"),
    # torchrun
    ("torchrun --nproc_per_node=2 --nnodes=3:3 train.py -m", "-n 6 -ppn 2 train.py -m"),
    ("torchrun --nnodes 2 train.py", "-n 2 -ppn 1 train.py"),
    ("torchrun --standalone --nproc-per-node=4 -m pkg.train", "-n 4 -ppn 4 -m pkg.train"),
    ("torchrun train.py", "train.py"),
    ("python -m torch.distributed.run --nproc-per-node 2 t.py", "-ppn 2 t.py"),
    ("-m torch.distributed.run --nproc-per-node 2 t.py", "-ppn 2 t.py"),
    ("python3 -m torch.distributed.launch --use_env --nproc_per_node=2 t.py", "-ppn 2 t.py"),
    # Accelerate
    ("accelerate launch --num_processes=4 --num-machines 2 --mixed_precision bf16 --cpu t.py --cpu",
     "-n 4 -ppn 2 --env ACCELERATE_MIXED_PRECISION=bf16 --env ACCELERATE_USE_CPU=true t.py --cpu"),
    ("accelerate-launch --num_cpu_threads_per_process 8 --dynamo_backend inductor -m pkg",
     "--env OMP_NUM_THREADS=8 --env ACCELERATE_DYNAMO_BACKEND=INDUCTOR -m pkg"),
    ("accelerate launch --mpirun_hostfile h --mpirun_ccl 2 --num_processes 4 t.py",
     "-f h -n 4 --env CCL_WORKER_COUNT=2 t.py"),
    ("python -m accelerate.commands.launch --debug t.py", "--env ACCELERATE_DEBUG_MODE=true t.py"),
    # IPEX, DeepSpeed
    ("ipexrun --nnodes 2 --nprocs-per-node 2 --hostfile h --ccl-worker-count 4 t.py",
     "-f h -n 4 -ppn 2 --env CCL_WORKER_COUNT=4 t.py"),
    ("python -m intel_extension_for_pytorch.cpu.launch --distributed --hostfile=h t.py",
     "-f h t.py"),
    ("deepspeed --hostfile=h --num_gpus 2 --include a@b t.py --deepspeed ds.json",
     "-f h -ppn 2 -l a -l b t.py --deepspeed ds.json"),
    ("deepspeed -H h -e b --num_nodes 2 --num_accelerators 2 --module pkg.train",
     "-f h -n 4 -ppn 2 -x b -m pkg.train"),
    # variables before it
    ("OMP_NUM_THREADS=8 A=x=y torchrun t.py", "--env OMP_NUM_THREADS=8 --env A=x=y t.py"),
    ("env -u B A=1 mpirun -genv A=2 -n 2 env C=3 python t.py",
     "-n 2 --env C=3 --env A=2 t.py"),
    ("A=1 train.py A=2", "--env A=1 train.py A=2"),
    ("mpirun -genv OMP_NUM_THREADS=4 accelerate launch --num_cpu_threads_per_process 8 t.py",
     "--env OMP_NUM_THREADS=8 t.py"),
    # one in another
    ("mpirun -n 4 -ppn 2 python3 -u -m pkg.train", "-n 4 -ppn 2 -m pkg.train"),
    ("mpirun -np 2 -ppn 1 torchrun --nnodes 2 --nproc-per-node 4 t.py", "-n 8 -ppn 4 t.py"),
    ("mpirun -n 1 python -m torch.distributed.run --nproc-per-node 4 t.py", "-ppn 4 t.py"),
    ("mpirun -n 4 -ppn 2 torchrun t.py", "-n 4 -ppn 2 t.py"),
    # after options of ipexctl run, which win
    ("-np 3 -m torch.distributed.run --nproc-per-node 2 t.py", "-np 3 t.py"),
    ("-f mine -ppn 1 -- mpirun -f theirs -n 4 python t.py", "-f mine -ppn 1 t.py"),
    ("--env A=1 mpirun -genv A=2 -genv B=2 python t.py", "--env B=2 --env A=1 t.py"),
    ("--timeout 5 mpirun --timeout 60 python t.py", "--timeout 5 t.py"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), TAKEN)
def test_what_a_line_becomes(line: str, said: str) -> None:
    assert became(line) == said
    assert became(said) == said  # it is read as it is


def test_words_of_mpi_for_click() -> None:
    typed = "run -hosts a,b -ppn 2 -np=2 t.py -genv x"
    said = "run -H a,b --ppn 2 -n 2 t.py -genv x"
    assert spell_for_click(shlex.split(typed)) == shlex.split(said)


def test_a_file_of_the_launchers_name_is_a_script(tmp_path: Path) -> None:
    (tmp_path / "torchrun").write_text("print(1)\n")
    assert became("torchrun --nproc-per-node 2") == "torchrun --nproc-per-node 2"
    assert became("/usr/bin/torchrun t.py") == "t.py"


OFF = "ipexctl: note: "


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("python3 t.py", "python3 replaced by: ipexctl run t.py"),
        ("mpirun -n 4 python3 t.py --lr 1", "mpirun replaced by: ipexctl run -n 4 t.py ..."),
        ("mpirun -n 4 --bind-to core -genvall python3 t.py",
         "mpirun replaced by: ipexctl run -n 4 t.py; ignored: --bind-to core (ipexctl pins "
         "ranks by the topology of each host (--explain shows how)), -genvall (ranks get only the "
         "variables that --env names, not others from this shell)"),
        ("torchrun --node-rank 1 t.py",
         "torchrun replaced by: ipexctl run t.py; ignored: --node-rank 1 (ipexctl starts all "
         "hosts from here, so one command is enough); no number of ranks is given, so ipexctl's "
         "default applies"),
        ("-n 3 torchrun --nnodes 2 --nproc-per-node 2 t.py",
         "torchrun replaced by: ipexctl run -n 3 t.py; --nnodes 2 --nproc-per-node 2 of torchrun "
         "is overridden by -n 3"),
        ("-f mine --env A=1 mpirun -n 2 -hostfile theirs -genv A=2 python t.py",
         "mpirun replaced by: ipexctl run -n 2 -f mine --env A=1 t.py; -hostfile theirs of mpirun "
         "is overridden by -f mine; A of mpirun is overridden by --env before it"),
        ("mpirun -n 2 accelerate launch --num_processes 8 t.py",
         "mpirun and accelerate launch replaced by: ipexctl run -n 2 t.py; --num_processes 8 of "
         "accelerate launch is overridden by that of mpirun"),
        ("mpirun -np 2 torchrun --nnodes 2 --nproc-per-node 4 t.py",
         "mpirun and torchrun replaced by: ipexctl run -n 8 -ppn 4 t.py; ignored: -np 2 "
         "(torchrun starts the ranks of a host)"),
        ("deepspeed --num_nodes 2 t.py",
         "deepspeed replaced by: ipexctl run t.py; ignored: --num_nodes 2 (all hosts take part; "
         "-l HOST,HOST chooses some); no number of ranks is given, so ipexctl's default applies; "
         "LOCAL_RANK is in the environment, and the script gets no --local_rank"),
        ("A=1 OMP_NUM_THREADS=8 torchrun --nproc-per-node 2 t.py",
         "torchrun replaced by: ipexctl run -ppn 2 --env A=1 --env OMP_NUM_THREADS=8 t.py"),
        ("A=1 mpirun -n 2 -genv A=2 python t.py",
         "mpirun replaced by: ipexctl run -n 2 --env A=2 t.py; A of env is overridden by that of "
         "mpirun"),
        ("env A=1 python t.py", "python replaced by: ipexctl run --env A=1 t.py"),
        ("mpirun -n 2 -genv HF_TOKEN=hf_x python t.py",
         "mpirun replaced by: ipexctl run -n 2 --env HF_TOKEN t.py"),
    ],
)  # fmt: skip
def test_one_note_says_what_was_taken_over_and_what_was_not(
    line: str, note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_launcher(["run", *shlex.split(line)])
    assert capsys.readouterr().err == f"{OFF}{note}\n"


# slugs of errors that say everything in one line
PLAIN = {
    "not-a-count", "launcher-value-unsupported", "option-value-missing", "option-takes-no-value"
}  # fmt: skip
REFUSED = [
    ("mpirun -n 2 python a.py : -n 2 python b.py", "several-programs", "mpirun"),
    ("mpirun -n two python t.py", "not-a-count", "mpirun -n two"),
    ("mpirun -n 0 python t.py", "not-a-count", "mpirun -n 0"),
    ("mpirun -n", "option-value-missing", "mpirun -n"),
    ("mpirun -n 2", "script-not-given", "mpirun"),
    ("python3", "script-not-given", "python3"),
    ("mpirun -n 2 ./a.out", "not-a-script", "./a.out"),
    ("mpirun -n 2 gdb --args python t.py", "not-a-script", "gdb"),
    ("mpirun -n 2 numactl -C 0 python t.py", "not-a-script", "numactl"),
    ("mpirun mpirun torchrun t.py", "too-many-launchers", "at most two launchers"),
    ("mpirun -hots a,b python t.py", "launcher-option-unknown", "-hots"),
    ("mpirun -wdir /tmp python t.py", "launcher-option-unsupported", "mpirun -wdir /tmp"),
    ("mpirun --map-by ppr:1:socket python t.py", "launcher-option-unsupported",
     "mpirun --map-by ppr:1:socket"),
    ("mpirun -n 8 torchrun --nproc-per-node 4 t.py", "launchers-both-start-ranks",
     "mpirun -n 8 starts torchrun --nproc-per-node 4"),
    ("torchrun --nproc-per-node gpu t.py", "launcher-option-unsupported",
     "torchrun --nproc-per-node gpu"),
    ("torchrun --nnodes 1:4 t.py", "launcher-option-unsupported", "torchrun --nnodes 1:4"),
    ("torchrun --nnodes many t.py", "launcher-value-unsupported", "torchrun --nnodes many"),
    ("torchrun --nproc 2 t.py", "launcher-option-unknown", "--nproc"),
    ("torchrun -m=x t.py", "option-takes-no-value", "torchrun -m=x"),
    ("accelerate launch --mixed_precision fp8 t.py", "launcher-option-unsupported",
     "accelerate launch --mixed_precision fp8"),
    ("accelerate launch --fsdp_sharding_strategy 1 t.py", "launcher-option-unknown",
     "--fsdp_sharding_strategy"),
    ("accelerate launch --num_processes 5 --num_machines 2 t.py", "ranks-not-divisible", "5 ranks"),
    ("ipexrun --extra-mpi-params '-genv A 1' t.py", "launcher-option-unsupported",
     "ipexrun --extra-mpi-params '-genv A 1'"),
    ("deepspeed --launcher_args=-x t.py", "launcher-option-unsupported",
     "deepspeed --launcher_args=-x"),
    ("python -c 'import torch'", "launcher-option-unsupported", "python -c 'import torch'"),
    ("A=1 ./train.sh", "not-a-script", "./train.sh"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "slug", "value"), REFUSED)
def test_what_cannot_hold_is_refused_by_name(line: str, slug: str, value: str) -> None:
    with pytest.raises(InputError) as e:
        became(line)
    assert e.value.slug == slug and value in e.value.what
    assert e.value.why or e.value.hint or slug in PLAIN


# --- the table -----------------------------------------------------------------------------------

EACH = [(one, flag) for one in known_launchers().all for flag in one.flags]


def _value(flag: Flag) -> str:
    known = {
        r"\.|\./": ".", r"ppr:(\d+):node(?::.*)?": "ppr:2:node", r"\d+": "2", "[^:]+": "a",
        r"(\d+)(?::\1)?": "2", r"\d+:(\d+)": "1:2", r"[1-9]\d*": "2",
        "": "x:0/1" if flag.becomes == "refused" else "7",
        "(?:core|slot|hwthread|numa|socket|package|l3cache|node)(?::.*)?": "core",
    }  # fmt: skip
    return known.get(flag.value, flag.value.partition("|")[0])


def _line_with(launcher: Launcher, flag: Flag, value: list[str]) -> list[str]:
    call = launcher.programs[0] if launcher.programs else f"python -m {launcher.modules[0]}"
    program = "python t.py" if launcher.starts == "command" else "t.py"
    line = [*call.split(), flag.names[0], *value, *program.split()]
    if flag.becomes == "config":
        line[line.index("7")] = "c.yaml"
    return ["run", *line]


def test_no_option_of_the_table_is_dropped_silently(
    capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    Path("c.yaml").write_text("mixed_precision: bf16\n")
    for launcher, flag in EACH:
        with subtests.test(launcher=launcher.name, option=flag.names[0]):
            _check_option(launcher, flag, capsys)
    assert len(EACH) > 150


def _check_option(launcher: Launcher, flag: Flag, capsys: pytest.CaptureFixture[str]) -> None:
    value = [_value(flag)] * flag.values
    line = _line_with(launcher, flag, value)
    if flag.becomes == "refused":
        with pytest.raises(InputError) as e:
            remove_launcher(line)
        assert flag.names[0] in e.value.what
        assert e.value.slug == "launcher-option-unsupported"
        assert (e.value.why, e.value.hint) == (flag.why, flag.type)
        return
    words = remove_launcher(line)
    note = capsys.readouterr().err
    assert words[-1] == "t.py"
    if flag.becomes == "ignored":
        assert f"{flag.names[0]}{' ' * flag.values}{value[0] if value else ''} ({flag.why})" in note
    else:
        assert len(words) > 2 or f"ignored: {flag.names[0]} {value[0]} (" in note


WORDS = st.sampled_from(
    [*(name for one in known_launchers().all for flag in one.flags for name in flag.names),
     *(name for one in known_launchers().all for name in one.programs),
     "-m", "torch.distributed.run", "python", "t.py", "2", "4", "A=1", "a,b", "--", ":", "x y"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["mpirun", "torchrun", "env", "python"]), st.lists(WORDS | st.text(max_size=6))
)
def test_any_line_is_taken_over_or_refused(first: str, rest: list[str]) -> None:
    with suppress(InputError):
        line = read_pasted_line([first, *rest], known_launchers())
        assert line
        made = translate_line(line, TypedOptions())
        assert made.script == tuple([first, *rest][-len(made.script) :])
        assert ": ipexctl run " in made.note


def test_the_entries_of_one_option_agree() -> None:
    for launcher in known_launchers().all:
        for flag in launcher.flags:
            assert {other.values for name in flag.names for other in launcher.find_flags(name)} == {
                flag.values
            }
            assert (flag.becomes in ("ignored", "refused")) == bool(flag.why)
            assert (flag.becomes == "refused") == bool(flag.type)
            assert all(launcher.normalize_option(name) == name for name in flag.names)


@pytest.mark.parametrize("line", ["accelerate config", "mpirun --version", "env A=1", ""])
def test_a_command_that_starts_no_ranks_is_no_launcher(line: str) -> None:
    assert not is_launch(line.split(), known_launchers())


@pytest.mark.parametrize(
    "line",
    ["A=1 mpirun -n 2 python t.py --x", "python -m torch.distributed.run t.py", "mpirun -n ? ?"],
)
def test_a_command_that_starts_ranks_is_known_by_the_table_of_launchers(line: str) -> None:
    assert is_launch(line.split(), known_launchers())
