"""What a run warns about in a script and its arguments, and what it leaves alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ipexctl.local.shipped_tables import migration_rules
from ipexctl.project.files.missing_file import find_meant_module
from ipexctl.run.preflight import STDLIB
from ipexctl.run.script.context import HostEnvironment, LocalPath, ProjectFiles
from ipexctl.run.script.review import Review
from ipexctl.run.script_files.script_sources import read_sources
from ipexctl.user_code.source_reader import read_source

V5 = {"torch": "2.13.0+cpu", "transformers": "5.23.0", "accelerate": "1.15.0", "trl": "1.16.0"}
V4 = {"torch": "2.6.0+cpu", "transformers": "4.44.2", "accelerate": "0.34.2", "trl": "0.11.4"}
MODULES = STDLIB | {"torch", "transformers", "accelerate", "trl", "datasets", "google", "lightning"}


def host(name: str = "node01", packages=V5, **more) -> HostEnvironment:
    return HostEnvironment(name, packages, more.pop("modules", MODULES), **more)


def notes_on(sources, argv, hosts, files, **more) -> list[str]:
    return Review(sources, argv, hosts, files, migration_rules(), **more).notes()


def review(text: str, *args: str, hosts=(), **files) -> list[str]:
    given = ProjectFiles(files.pop("sent", ("train.py",)), **files)
    source = read_source("train.py", text, main=True)
    hosts = hosts or [host()]
    return notes_on([source], ("train.py", *args), hosts, given, ranks_per_host=2)


HF = "from transformers import HfArgumentParser, TrainingArguments\n"
PARSED = HF + "p = HfArgumentParser(TrainingArguments)\np.parse_args_into_dataclasses()\n"
SFT = "from trl import SFTConfig, TrlParser\n"
MAIN = "def main():\n    import apex\nif __name__ == '__main__':\n    main()\n"
ENDED = "was discontinued and is not installed on node01; use"

# what a script says, its arguments, and the start of each note
WARNED = {
    "use_ipex": (PARSED, ["--use_ipex"], ["train.py: --use_ipex was removed in transformers 4.57"]),
    "no_cuda": (
        PARSED, ["--no_cuda", "True"],
        ["train.py: --no_cuda was removed in transformers 5.0, the hosts have 5.23.0; "
         "use --use_cpu"],
    ),
    "jit_mode_eval": (
        PARSED, ["--jit-mode-eval"], ["train.py: --jit_mode_eval was removed in transformers 5.0"],
    ),
    "ccl": (
        PARSED, ["--ddp_backend=ccl"],
        ["train.py: --ddp_backend ccl was removed in transformers 5.1, the hosts have 5.23.0; "
         "use --ddp_backend gloo"],
    ),
    "bf16": (
        PARSED, ["--bf16"],
        ["train.py: --bf16 without --use_cpu requires a GPU in transformers; use --bf16 --use_cpu"],
    ),
    "a subclass of the script": (
        HF + "class Mine(TrainingArguments):\n    x: int = 1\nHfArgumentParser((Mine,))\n",
        ["--use_ipex"], ["train.py: --use_ipex was removed"],
    ),
    "keywords": (
        HF + "TrainingArguments('out', no_cuda=True, use_ipex=False,\n  ddp_backend='ccl')\n", [],
        ["train.py:2: no_cuda was removed in transformers 5.0, the hosts have 5.23.0; "
         "use use_cpu=True",
         "train.py:2: use_ipex was removed in transformers 4.57",
         'train.py:2: ddp_backend="ccl" was removed in transformers 5.1'],
    ),
    "bf16=True": (
        "import transformers as t\na = t.TrainingArguments('out', bf16=True)\n", [],
        ["train.py:2: bf16=True without use_cpu=True requires a GPU in transformers"],
    ),
    "trl's own default": (
        SFT + "a = SFTConfig(output_dir='out')\n", [],
        ["train.py:2: SFTConfig sets bf16 by default, which requires a GPU without use_cpu; "
         "use SFTConfig(..., use_cpu=True)"],
    ),
    "trl's own default, from arguments": (
        SFT + "TrlParser((SFTConfig,))\n", ["--output_dir", "out"],
        ["train.py:2: SFTConfig sets bf16 by default"],
    ),
    "a parser's classes in a variable": (
        SFT + "kinds = (SFTConfig,)\nTrlParser(kinds)\n", [],
        ["train.py:3: SFTConfig sets bf16 by default"],
    ),
    "bindings": (
        "import torch\nimport oneccl_bindings_for_pytorch\n", [],
        [f'train.py:2: oneccl_bindings_for_pytorch {ENDED} the backend "gloo", or install it '
         "with `ipexctl install --backend ccl`"],
    ),
    "IPEX": (
        "import intel_extension_for_pytorch as ipex\n", [],
        [f"train.py:1: intel_extension_for_pytorch {ENDED} torch.autocast and torch.compile, or "
         "install it with `ipexctl install --stack ipex`"],
    ),
    "a module that is not installed": (
        "import os, numpy.linalg\nfrom torch import nn\n", [],
        ["train.py:1: not installed on node01: numpy; try: printf '\\n%s\\n' numpy >> "
         "requirements.txt && ipexctl install -r requirements.txt"],
    ),
    "in a function that runs": (MAIN, [], ["train.py:2: not installed on node01: apex; try: "]),
    "spawn": (
        "import torch.multiprocessing as mp\nmp.spawn(f, nprocs=4)\n", [],
        ["train.py:2: torch.multiprocessing.spawn starts further processes in every rank; use one"],
    ),
    "nccl": (
        "import torch.distributed as dist\ndist.init_process_group(backend='nccl')\n", [],
        ["train.py:2: the backend \"nccl\" needs a GPU, but torch on the hosts is built for "
         "CPUs; use the backend \"gloo\""],
    ),
    "a GPU": (
        "import torch\ndef main():\n    model = Net().to('cuda:0')\n    x.cuda()\nmain()\n", [],
        ['train.py:3: the device "cuda:0" needs a GPU'],
    ),
    ".cuda()": ("import torch\nnet.cuda()\n", [], ["train.py:2: .cuda() needs a GPU"]),
    "a GPU by way of names": (
        "import torch\nimport torch.distributed as dist\nB = 'nccl'\nD = torch.device('cuda:0')\n"
        "m.to(device=D)\ndist.init_process_group(B)\n", [],
        ['train.py:5: the device "cuda:0" needs a GPU'],
    ),
    "one of several GPUs": (
        "import torch\ndef main():\n    m.to(f'cuda:{local}')\nmain()\n", [],
        ['train.py:3: the device "cuda:?" needs a GPU'],
    ),
    "the first of two": (
        "import torch\ndef main():\n    x.cuda()\nmain()\ny.to('cuda')\n", [],
        ["train.py:3: .cuda() needs a GPU"],
    ),
    "set_device": (
        "import torch\ntorch.cuda.set_device(0)\n", [],
        ["train.py:2: torch.cuda.set_device() needs a GPU"],
    ),
    "Lightning's defaults": (
        "import lightning as L\nL.Trainer(max_epochs=1, strategy='ddp')\n", [],
        ['train.py:2: Trainer(...) means num_nodes=1, devices=1, the run has hosts: 1, ranks on '
         'each: 2; use Trainer(..., accelerator="cpu", devices=2, num_nodes=1)'],
    ),
    "Fabric's": (
        "from lightning.fabric import Fabric\nFabric(devices=4, num_nodes=2)\n", [],
        ["train.py:2: Fabric(...) means num_nodes=2, devices=4, the run has hosts: 1, ranks on"],
    ),
    "a name that is not that of its package": (
        "import cv2\n", [],
        ["train.py:1: not installed on node01: cv2 (opencv-python-headless); try: printf "
         "'\\n%s\\n' opencv-python-headless >> requirements.txt && ipexctl install -r "],
    ),
    "several modules, in one line": (
        "import yaml, tqdm\nimport apex\n", [],
        ["train.py:1: not installed on node01: yaml (pyyaml), tqdm, apex; try: printf "
         "'\\n%s\\n' pyyaml tqdm apex >> requirements.txt && ipexctl install -r requirements.txt"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "args", "begins"), WARNED.values(), ids=WARNED)
def test_what_does_not_fit_the_hosts_is_one_line_with_its_replacement(text, args, begins) -> None:
    notes = review(text, *args)
    assert [note[: len(begin)] for note, begin in zip(notes, begins, strict=True)] == begins
    assert all(("; use " in note or "; try: " in note) and "\n" not in note for note in notes)


def test_a_misspelt_name_which_may_be_anybodys_package_is_not_installed() -> None:
    notes = review("import pandsa, tqdm, dill\n")
    first, second = notes
    assert first == "train.py:1: not installed on node01: pandsa (did you mean 'pandas'?)"
    assert "tqdm, dill" in second and "pandsa" not in second
    assert [find_meant_module(name) for name in ("nump", "tyre", "attrs", "pandas", "gin")] == [
        "numpy", "", "", "", "",
    ]  # fmt: skip


OWN = "import argparse\nfrom transformers import TrainingArguments\np = argparse.ArgumentParser()\n"
IF_IPEX = "if args.ipex:\n    import intel_extension_for_pytorch\n"
SILENT = {
    "PartialState with its cpu": ("import accelerate\naccelerate.PartialState(cpu=True)\n", []),
    "PartialState beside an Accelerator": (
        "from accelerate import Accelerator, PartialState\nAccelerator()\nPartialState()\n", [],
    ),
    "the arguments of the script's own parser": (
        OWN + "p.add_argument('--use_ipex')\n", ["--use_ipex", "--bf16"],
    ),
    "a parser of transformers with a field of the script's": (
        HF + "class A:\n    use_ipex: bool = False\nHfArgumentParser((A, TrainingArguments))\n",
        ["--use_ipex"],
    ),
    "bf16 on CPUs": (PARSED, ["--bf16", "--use_cpu"]),
    "bf16 off": (PARSED, ["--bf16", "False"]),
    "fp16, which CPUs ignore": (PARSED, ["--fp16"]),
    "gloo": (PARSED, ["--ddp_backend", "gloo"]),
    "a file of arguments": (PARSED, ["--bf16", "--config", "args.yaml"]),
    "arguments that are changed": (PARSED + "p.set_defaults(use_cpu=True)\n", ["--bf16"]),
    "options that nobody knows yet": (HF + "TrainingArguments('o', **kw, bf16=True)\n", []),
    "a value that nobody knows yet": (HF + "TrainingArguments('o', bf16=x, use_cpu=y)\n", []),
    "a keyword behind a look at the version": (
        HF + "if version < '5':\n    TrainingArguments('o', no_cuda=True)\n", [],
    ),
    "a keyword that may fail": (
        HF + "try:\n    TrainingArguments('o', no_cuda=True)\nexcept TypeError:\n    pass\n", [],
    ),
    "trl on CPUs": (SFT + "SFTConfig('o', use_cpu=True)\nSFTConfig('o', bf16=False)\n", []),
    "an import that may fail": (
        "try:\n    import apex, intel_extension_for_pytorch\nexcept ImportError:\n    pass\n", [],
    ),
    "an import under a condition": (IF_IPEX, []),
    "an import in a function that may not run": ("def f():\n    import apex\n", []),
    "an import after a way out": (
        "def f():\n    if x:\n        return\n    import apex\nf()\n", [],
    ),
    "an import that is suppressed": (
        "from contextlib import suppress\nwith suppress(ImportError):\n    import apex\n", [],
    ),
    "an import for a type checker": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import apex\n", [],
    ),
    "an own search path": ("import sys\nsys.path.insert(0, 'lib')\nimport apex\n", []),
    "the standard library": ("import tomllib, distutils, _thread, multiprocessing.pool\n", []),
    "relative and namespace modules": ("from . import x\nimport google.protobuf\n", []),
    "a GPU that is asked for": (
        "import torch\nif torch.cuda.is_available():\n    m.cuda()\n"
        "x = m.cuda() if gpu else m\nf = lambda: m.cuda()\n[t.cuda() for t in ts]\n"
        "gpu and m.cuda()\nm.to(device)\np.add('--x', device='cuda')\n", [],
    ),
    "a cuda() of its own": (
        "import torch\nclass N(torch.nn.Module):\n    def cuda(self):\n        return self\n"
        "N().cuda()\n", [],
    ),
    "a device that may be another": (
        "import torch\nd = 'cpu'\nif gpu:\n    d = 'cuda'\nm.to(d)\n"
        "e = torch.device('cuda' if gpu else 'cpu')\nm.to(e)\ndef f(g):\n    m.to(g)\ng = 'cuda'\n",
        [],
    ),
    "a Trainer of a branch": (
        "import lightning as L\nif debug:\n    L.Trainer(fast_dev_run=True)\n", [],
    ),
    "gloo and a CPU": (
        "import torch\ntorch.distributed.init_process_group('gloo')\nm.to('cpu')\n", [],
    ),
    "a spawn that may not be": (
        "import torch.multiprocessing as mp\nif n > 1:\n    mp.spawn(f, nprocs=n)\n", [],
    ),
    "Lightning with its numbers": (
        "import lightning as L\nL.Trainer(devices=2, num_nodes=1)\nL.Fabric(devices='2')\n"
        "L.Fabric()\n"
        "L.Trainer(devices=n)\nL.Trainer(**kw)\n", [],
    ),
    "names that no hub reads": ("import argparse\n", ["--model", "resnet50"]),
    "a name of timm's": ("import timm\n", ["--model", "resnet18"]),
    "a name of timm's beside transformers": (
        "import timm, transformers\n", ["--model", "resnet18"],
    ),
    "a name of torchvision's beside Accelerate": (
        "import accelerate\nfrom torchvision import models\n", ["--model", "resnet18"],
    ),
    "nothing": ("", []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "args"), SILENT.values(), ids=SILENT)
def test_where_it_cannot_be_known_nothing_is_said(text, args) -> None:
    modules = MODULES | {"timm", "torchvision"}
    alone = host(modules=modules, has_route="--model" not in args)
    assert review(text, *args, hosts=[alone]) == []


def test_what_python_cannot_read_is_told_with_its_line() -> None:
    (note,) = review("import apex\nprint 'x'\n", "--use_ipex")
    assert re.match(r"train\.py:2: Python 3\.\d+ ", note) and "parentheses" in note


def test_a_mark_of_windows_editors_is_no_error(tmp_path) -> None:
    (tmp_path / "t.py").write_bytes(b"\xef\xbb\xbfimport torch\r\n")
    (source,) = read_sources(tmp_path, "", ["t.py"])
    assert (source.error, [one.top for one in source.imports]) == (None, ["torch"])


def of_project(path: str, text: str, **more) -> list[str]:
    """Notes on a script below a folder in which the ranks start."""
    modules = more.pop("modules", MODULES)
    source = read_source(path, text, main=True)
    given = ProjectFiles((path, "common.py"), **{"beside": path.rpartition("/")[0], **more})
    return notes_on([source], (path,), [host(modules=modules)], given)


def test_a_module_of_the_project_is_looked_for_where_python_does() -> None:
    text = "import common\n"
    assert of_project("train.py", text) == []
    assert of_project("sub/train.py", text, beside="") == []
    assert of_project("sub/train.py", text, variables={"PYTHONPATH"}) == []
    assert of_project("sub/train.py", text, modules=MODULES | {"common"}) == []
    assert of_project("sub/train.py", text, modules=None) == of_project("sub/train.py", text)
    (note,) = of_project("sub/train.py", text)
    assert note.startswith("sub/train.py:1: module common ")
    assert "`ipexctl run -m sub.train`" in note and "--env PYTHONPATH=." in note
    assert of_project("sub/train.py", text, cwd="sub") == []  # whether it is meant is not known


@pytest.mark.parametrize(
    "text", ["import data\n", "from common import data\n", "from . import data\n"]
)
def test_a_module_that_stays_here_is_told_with_the_reason(text) -> None:
    kept = {("train.py", 1): "left out by data.py in .gitignore"}
    (found,) = of_project("train.py", text + text, kept_here=kept)
    assert found.startswith("train.py:1: module ") and found.endswith(kept["train.py", 1])
    assert of_project("train.py", text, kept_here=kept, modules=None) == [found]
    assert of_project("train.py", "import torch\n", kept_here=kept) == []


def test_each_argument_is_judged_by_the_versions_on_the_hosts() -> None:
    args = ["--use_ipex", "--no_cuda", "--ddp_backend", "ccl", "--jit_mode_eval", "--bf16"]
    assert review(PARSED, *args, hosts=[host(packages=V4)]) == []
    old = {**V5, "transformers": "4.57.6"}
    assert [n.split()[1] for n in review(PARSED, *args, hosts=[host(packages=old)])] == [
        "--use_ipex", "--ddp_backend",
    ]  # fmt: skip
    assert review(PARSED, *args, hosts=[host(), host("node02", V4)]) == []
    assert review(PARSED, *args, hosts=[host(packages={"torch": "2.13.0"})]) == []


def test_bf16_may_mean_a_gpu() -> None:
    cuda = {**V5, "torch": "2.13.0", "nvidia-cublas-cu12": "12.8"}
    assert review(PARSED, "--bf16", hosts=[host(packages=cuda)]) == []
    plain = {**V5, "torch": "2.13.0"}  # for aarch64 the default index has a CPU build
    assert len(review(PARSED, "--bf16", hosts=[host(packages=plain)])) == 1


IMPORTS = "import intel_extension_for_pytorch, oneccl_bindings_for_pytorch, helpers\n"


@pytest.mark.parametrize(
    "more",
    [
        {"hosts": [host(modules=None)]},  # --use-env, editable installs, system site-packages
        {"variables": ["PYTHONPATH"]},
        {"hosts": [host(packages={"intel-extension-for-pytorch": "2.7.0", "torch-ccl": "1"},
                        modules=frozenset({"helpers"}))]},
        {"sent": ["src/helpers/__init__.py", "intel_extension_for_pytorch.py",
                  "oneccl_bindings_for_pytorch/x.py"]},
    ],
)  # fmt: skip
def test_an_import_that_may_be_found_is_not_warned_about(more) -> None:
    assert review(IMPORTS, **more) == []


def test_hosts_that_lack_a_module_are_named() -> None:
    full = host("node01", modules=MODULES | {"numpy"})
    notes = review("import numpy\n", hosts=[full, host("node02"), host("node03")])
    assert ["numpy" in n for n in notes] == [True]
    assert " on node[02-03]: numpy; " in notes[0]


# --- models and datasets -------------------------------------------------------------------------

ALONE = [host(), host("node02", has_route=False)]
LOADS = (
    "from datasets import load_dataset\nfrom transformers import AutoModel\n"
    "d = load_dataset('imdb')\nm = AutoModel.from_pretrained('org/m')\n"
)


def test_names_of_a_hub_need_a_way_out_or_a_cache() -> None:
    notes = review(LOADS, "--model_name_or_path", "gpt2", "--dataset-name=squad", hosts=ALONE)
    assert [n.partition(" is not")[0] for n in notes] == [
        "train.py: model gpt2", "train.py: dataset squad",
        "train.py:3: dataset imdb", "train.py:4: model org/m",
    ]  # fmt: skip
    fact, _, use = notes[0].partition("; use ")
    assert " node02 " in fact
    assert "data pull hf:models/gpt2`" in use and "--data gpt2" in use
    assert "hf:models/org/m`" in notes[3] and "--data m" in notes[3]
    assert review(LOADS, "--model", "gpt2") == []
    for name in ("HF_HOME", "HF_HUB_OFFLINE", "https_proxy"):
        assert review(LOADS, "--model", "gpt2", hosts=ALONE, variables=[name]) == []


HERE = {"cwd": "jobs", "sent": ("jobs/m/config.json",), "hosts": ALONE}


@pytest.mark.parametrize(
    ("name", "local", "begins"),
    [
        ("m", True, ""),
        ("../m", True, "train.py: ../m is on this machine and is not sent to the hosts; use"),
        ("/mnt/models/m", False, ""),  # it may be on the hosts
        ("./m", False, ""),
        ("out/checkpoint-5", False, ""),  # the script writes to out
        ("out/checkpoint-5", True, ""),
        ("x" * 300, False, "train.py: model xxx"),
    ],
)
def test_a_model_may_be_a_path(name: str, local: bool, begins: str) -> None:
    writes = HF + "TrainingArguments(output_dir='out')\n"
    found = review(writes, "--model", name, local={name: LocalPath(name)} if local else {}, **HERE)
    assert [note[: len(begins)] for note in found] == ([begins] if begins else [])


def test_why_a_model_of_this_machine_is_not_sent_is_told_with_the_way_to_send_it() -> None:
    here = {"m": LocalPath("my m", "only /p/jobs is sent", "git init /p")}
    (note,) = review(HF, "--model", "m", local=here, hosts=ALONE)
    fact, _, use = note.partition("; use ")
    assert fact.endswith(f": {here['m'].why}")
    assert "`git init /p`" in use and "push 'my m' --as model`" in use


def test_a_path_for_an_argument_is_one_that_an_unchanged_script_can_take() -> None:
    here = {"local": {"m": LocalPath("m")}, "data": "/home/ann/.ipexctl/data"}
    (note,) = review(HF, "--model", "m", **here)
    assert "pass /home/ann/.ipexctl/data/model/current/files" in note
    (note,) = review(HF + "AutoModel.from_pretrained('m')\n", **here)
    assert note.endswith(" $IPEXCTL_DATA_MODEL")


def test_files_and_what_the_script_wrote_are_no_names_of_a_hub() -> None:
    text = (
        "from datasets import load_dataset\nload_dataset('csv', data_files='x.csv')\n"
        "model.save_pretrained('out')\nAutoModel.from_pretrained('out')\n"
        "AutoModel.from_pretrained(path)\nload_dataset\n"
    )
    assert review(text, "--model", hosts=ALONE) == []


# --- which files are read ------------------------------------------------------------------------


def test_the_projects_own_modules_are_read_too(tmp_path: Path) -> None:
    files = {
        "jobs/train.py": "import lib.net\nfrom tools import log\nimport torch\n",
        "jobs/lib/__init__.py": "from . import extra\n",
        "jobs/lib/net.py": "import torch_ccl\nif __name__ == '__main__':\n    import apex\n",
        "jobs/lib/extra.py": "", "jobs/tools/log.py": "", "jobs/unused.py": "import apex\n",
        "tools/log.py": "import apex\n",
    }  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = read_sources(tmp_path, "jobs", ("train.py", "--x"), files)
    assert {source.path for source in found[1:]} == {
        "jobs/lib/__init__.py", "jobs/lib/net.py", "jobs/lib/extra.py", "jobs/tools/log.py",
    }  # fmt: skip
    notes = notes_on(found, ("train.py",), [host()], ProjectFiles(files, "jobs"))
    assert [n.split(" was ")[0] for n in notes] == ["jobs/lib/net.py:1: torch_ccl"]
    by_module = read_sources(tmp_path, "jobs", ("-m", "lib.net"), files)
    assert [source.path for source in by_module] == ["jobs/lib/net.py"]
    assert read_sources(tmp_path, "", ("-m", "nothing.here"), files) == []


def test_a_name_with_an_escape_code_does_not_reach_the_terminal() -> None:
    source = read_source("two\x1b[31m.py", "import apex\n", main=True)
    (note,) = notes_on([source], ("x",), [host()], ProjectFiles(()))
    assert note.startswith("two?[31m.py:1: not installed on node01: apex")
