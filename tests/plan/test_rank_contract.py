"""The variables that frameworks read: which are set, where they are not, what the user hears."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipexctl.errors import InputError
from ipexctl.run.plan import rank_variables
from ipexctl.run.plan.launch import RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.user_code import frameworks
from ipexctl.user_code.source_reader import read_source
from tests.plan.hosts import node, on_network

BARE = "from accelerate import Accelerator\nAccelerator()\n"


def nodes(shape, *packages: str, torch: str = "2.13.0+cpu", accelerators: tuple[str, ...] = ()):
    def one(name: str):
        made = node(on_network(shape("one node"), name, int(name[1:])))
        known = (("torch", torch), *((package, "1") for package in packages))
        return replace(
            made, prepared=replace(made.prepared, packages=known, accelerators=accelerators)
        )

    return [one("n1"), one("n2")]


def request(source: str = BARE, *args: str, **asked) -> RunRequest:
    argv = ("train.py", *args)
    sources = [read_source("train.py", source, main=True)]
    found = frameworks.of_run(sources, argv, dict(asked.get("env", ())))
    return RunRequest(argv, **{"n": 4, "ppn": 2, **asked}, frameworks=found)


def of_rank(made, rank: int) -> dict[str, str]:
    host = next(h for h in made.hosts if any(p.rank == rank for p in h.ranks))
    place = next(p for p in host.ranks if p.rank == rank)
    return rank_variables.compose_rank_variables(made, host, place)


def test_accelerate_is_told_to_join_on_cpus(shape):
    made = make_launch_plan(nodes(shape, "accelerate"), request(), "r1")
    assert of_rank(made, 0)["ACCELERATE_USE_CPU"] == "true"
    assert "ACCELERATE_USE_CPU" not in of_rank(make_launch_plan(nodes(shape), request(), "r1"), 0)


@pytest.mark.parametrize(("version", "name"), [("0.14.0", "USE_CPU"), ("0.9.0", "USE_CPU"),
    ("0.15.0", "ACCELERATE_USE_CPU"), ("0.20.3", "ACCELERATE_USE_CPU")])  # fmt: skip
def test_accelerate_before_0_15_reads_another_name(shape, version, name):
    hosts = [
        replace(n, prepared=replace(n.prepared, packages=(("accelerate", version),)))
        for n in nodes(shape)
    ]
    env = of_rank(make_launch_plan(hosts, request(), "r1"), 0)
    assert {"USE_CPU", "ACCELERATE_USE_CPU"} & env.keys() == {name}


@pytest.mark.parametrize(
    ("source", "args", "env", "what"),
    [
        ("import accelerate as a\na.DeepSpeedPlugin(zero_stage=1)", (), (), "DeepSpeed"),
        ("from accelerate import FullyShardedDataParallelPlugin as F", (), (), "FSDP"),
        ("import transformers\nTrainingArguments(deepspeed='ds.json')", (), (), "DeepSpeed"),
        ("import transformers\nTrainingArguments(deepspeed=None)", (), (), ""),
        ("import transformers", ("--deepspeed", "ds.json"), (), "DeepSpeed"),
        ("import transformers", ("--fsdp=full_shard",), (), "FSDP"),
        (BARE, (), (("ACCELERATE_USE_FSDP", "true"),), "FSDP"),
        (BARE, (), (("ACCELERATE_USE_FSDP", "false"),), ""),
    ],
)  # fmt: skip
def test_it_is_not_told_where_that_would_turn_off_what_the_script_asks_for(
    shape, source, args, env, what
):
    made = make_launch_plan(nodes(shape, "accelerate"), request(source, *args, env=env), "r1")
    assert ("ACCELERATE_USE_CPU" in of_rank(made, 0)) is not bool(what)
    said = [note for note in made.notes if "ACCELERATE_USE_CPU" in note]
    assert [what in note for note in said] == ([True] if what else [])


def test_it_is_not_told_where_a_torch_could_use_an_accelerator(shape):
    gpus = nodes(shape, "accelerate", torch="2.13.0+cu130", accelerators=("/dev/nvidia0",))
    made = make_launch_plan(gpus, request(), "r1")
    assert "ACCELERATE_USE_CPU" not in of_rank(made, 0)
    assert any(note.startswith("n[1-2]: accelerators found") for note in made.notes)
    unused = nodes(shape, "accelerate", accelerators=("/dev/nvidia0",))
    assert of_rank(make_launch_plan(unused, request(), "r1"), 0)["ACCELERATE_USE_CPU"] == "true"


def test_deepspeed_is_told_its_accelerator_and_may_bind_threads(shape):
    preload = (f"{nodes(shape)[0].prepared.prefix}/lib/libiomp5.so",)
    both = {}
    for packages in ((), ("deepspeed",)):
        hosts = nodes(shape, *packages)
        hosts = [replace(n, prepared=replace(n.prepared, preload=preload)) for n in hosts]
        both[packages] = of_rank(make_launch_plan(hosts, request(), "r1"), 0)
    assert both["deepspeed",]["DS_ACCELERATOR"] == "cpu"
    assert "KMP_AFFINITY" not in both["deepspeed",]
    assert "DS_ACCELERATOR" not in both[()]
    assert "KMP_AFFINITY" in both[()]


def test_env_wins_over_the_contract_and_is_told(shape):
    made = make_launch_plan(
        nodes(shape), request(env=(("GROUP_RANK", "7"), ("ROLE_RANK", "9"))), "r1"
    )
    assert (of_rank(made, 3)["GROUP_RANK"], of_rank(made, 3)["ROLE_RANK"]) == ("7", "3")
    assert any("--env GROUP_RANK=7 is used" in note for note in made.notes)
    assert any(note.startswith("--env ROLE_RANK: not used") for note in made.notes)


def test_lightning_on_unequal_hosts_is_refused_with_the_counts(shape):
    source = "import lightning as L\nL.Trainer(devices=2, num_nodes=2)"
    with pytest.raises(InputError) as refused:
        make_launch_plan(nodes(shape), request(source, n=3), "r1")
    assert refused.value.slug == "lightning-ranks-uneven"
    assert (refused.value.why, refused.value.hint) == ("n1 has 2, n2 has 1", "-n 2 -ppn 1")
    assert make_launch_plan(nodes(shape), request(n=3), "r1").world_size == 3
