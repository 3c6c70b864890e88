"""run --compress before ranks start: what it tells them, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.common.run_orders import StartOrder
from ipexctl.local.run_options import RunOptions
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.run import check_run_options
from ipexctl.run.run_script import read_script
from ipexctl.run.watch.start_request import Orders
from tests.cli import ipexctl
from tests.made import facts, host, prepared
from tests.refused import refused

DDP = "from torch.nn.parallel import DistributedDataParallel as P\nP(model)\n"
FSDP = "from torch.distributed.fsdp import FullyShardedDataParallel as F\nF(model)\n"
SHARD = "from torch.distributed.fsdp import fully_shard\nfully_shard(model)\n"

USUAL = {"sitecustomize", "python_exit"}
ASKED = {"thread_waits", "rank_groups"}


def made_plan(compress: str = "fp16", ranks: int = 2, **asked):
    nodes = [
        PlannedHost(host(name), facts(name), prepared()) for name in ("node01", "node02")[:ranks]
    ]
    return make_launch_plan(
        nodes, RunRequest(("t.py",), ranks, compress=compress, **asked), "made-run"
    )


def orders(**options) -> StartOrder:
    made = made_plan(options.get("compress", "off"))
    return Orders(made, "made-run", RunOptions("t.py", **options)).compose_start_order(
        "node01", "/work"
    )


@pytest.mark.parametrize(
    ("options", "modules", "env"),
    [
        ({}, ASKED, {}),
        ({"no_inspect": True}, set(), {"IPEXCTL_LOOK": "0"}),
        ({"compress": "fp16"}, {*ASKED, "half_gradients"}, {"IPEXCTL_COMPRESS": "fp16"}),
        (
            {"compress": "bf16", "no_inspect": True},
            {"half_gradients"},  # without the part that looks
            {"IPEXCTL_COMPRESS": "bf16", "IPEXCTL_LOOK": "0"},
        ),
    ],
)
def test_ranks_get_the_module_and_its_mode(options, modules, env):
    sent = orders(**options)
    assert sent.modules.keys() == USUAL | modules
    names = ("IPEXCTL_COMPRESS", "IPEXCTL_LOOK")
    for rank in sent.ranks:
        assert {name: rank.env[name] for name in names if name in rank.env} == env


def test_the_plan_gives_the_reason_of_the_variable():
    first = made_plan("bf16").hosts[0]
    assert dict(first.rank_env)["IPEXCTL_COMPRESS"] == "bf16"
    assert dict(first.reasons)["IPEXCTL_COMPRESS"].startswith("--compress")


def test_another_value_is_refused():
    with refused("unknown-value", "--compress fp8", "bf16"):
        check_run_options(RunOptions("t.py", compress="fp8"))


@pytest.mark.parametrize(("ranks", "count"), [(1, 1), (2, 0)])
def test_one_rank_is_a_note(ranks, count):
    said = "--compress fp16 has no effect"
    assert sum(said in note for note in made_plan("fp16", ranks=ranks).notes) == count
    assert not any("--compress" in note for note in made_plan("off", ranks=ranks).notes)


@pytest.mark.parametrize(
    ("source", "args", "env", "what"),
    [
        (FSDP, (), {}, "FSDP"),
        (SHARD, (), {}, "FSDP"),
        ("import deepspeed\ndeepspeed.initialize(model=m)", (), {}, "DeepSpeed"),
        ("from accelerate import FullyShardedDataParallelPlugin as P\nP()", (), {}, "FSDP"),
        ("from accelerate import DeepSpeedPlugin as P\nP()", (), {}, "DeepSpeed"),
        ("from transformers import TrainingArguments as T\nT(fsdp='full_shard')", (), {}, "FSDP"),
        ("import transformers", ("--deepspeed", "ds.json"), {}, "DeepSpeed"),
        ("import accelerate", (), {"ACCELERATE_USE_FSDP": "true"}, "FSDP"),
        ("import lightning as L\nL.Trainer(strategy='fsdp_cpu_offload')", (), {}, "FSDP"),
        ("import lightning as L\nL.Fabric(strategy='deepspeed')", (), {}, "DeepSpeed"),
        ("from lightning.pytorch.strategies import FSDPStrategy as S\nS()", (), {}, "FSDP"),
    ],
)
def test_what_exchanges_gradients_without_ddp_is_refused(
    source, args, env, what, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(source)
    options = RunOptions("t.py", args, env=env, compress="fp16")
    with refused("compress-needs-ddp", "fp16", what, "--force"):
        read_script(options)
    assert read_script(replace(options, compress="off")).notes == ()
    assert [what in note for note in read_script(replace(options, force=True)).notes] == [True]


@pytest.mark.parametrize(
    "source",
    [
        DDP,
        DDP + FSDP,
        "import deepspeed\n" + DDP,
        "import lightning as L\nL.Trainer(strategy='ddp')",
    ],
)
def test_scripts_that_may_use_ddp_are_not_refused(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(source)
    assert read_script(RunOptions("t.py", compress="bf16")).notes == ()


def test_a_settings_file_can_set_it(tmp_path):
    (tmp_path / "t.py").write_text(FSDP)
    (tmp_path / "ipexctl.toml").write_text('[run]\ncompress = "bf16"\n')
    done = ipexctl("run", "--json", "-H", "h1", "t.py", cwd=tmp_path)
    found = json.loads(done.stdout.splitlines()[-1])["errors"]
    assert [error["slug"] for error in found] == ["compress-needs-ddp"]
