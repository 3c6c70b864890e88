"""Stand-ins for what Intel and PyTorch publish: named like them, and not them.

Every wheel says so in its METADATA. What they do is written down here and nowhere else: `torch` can
be trained by one number and adds up over files, `impi_rt` starts processes on this host, and the
bindings register nothing. That they pass shows names, indexes, order and variables, not oneCCL.
"""

from __future__ import annotations

from pathlib import Path

from tests.install.conftest import TORCH, make_wheel

IPEX = "intel_extension_for_pytorch"
NEW, OLD = "oneccl_bindings_for_pytorch", "torch_ccl"
_MPI = {NEW: "$CCL_ROOT/opt/mpi", OLD: "$CCL_ROOT"}
_FABRIC = {NEW: "$CCL_ROOT/opt/mpi/libfabric/lib", OLD: "$CCL_ROOT/lib"}
_BIN = {NEW: "$CCL_ROOT/bin:$CCL_ROOT/opt/mpi/bin", OLD: "$CCL_ROOT/bin"}
_LIB = {NEW: f"$CCL_ROOT/lib:$CCL_ROOT/opt/mpi/lib:{_FABRIC[NEW]}", OLD: _FABRIC[OLD]}
# module -> what its setvars.sh sets; from 1.12 on MPI has a folder of its own below the package
SETVARS = {
    module: {
        "CCL_ROOT": "$CCL_ROOT",
        "I_MPI_ROOT": _MPI[module],
        "LD_LIBRARY_PATH": _LIB[module],
        "LIBRARY_PATH": "$CCL_ROOT/lib",
        "CPATH": "$CCL_ROOT/include",
        "PATH": _BIN[module],
        "FI_PROVIDER_PATH": f"{_FABRIC[module]}/prov",
    }
    for module in _BIN
}


def setvars_sh(module: str) -> str:
    """As oneCCL's own: it finds its place by BASH_SOURCE, uses `source`, wants to be sourced."""
    lines = [
        "#!/bin/bash",
        'if [ "$0" = "${BASH_SOURCE[0]}" ]; then echo "must be sourced"; exit 255; fi',
        'for word in "$@"; do echo "unknown option $word"; return 1; done',
        'CCL_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"; export CCL_ROOT',
        "echo ':: initializing stand-in of oneCCL'",
    ]
    for name, value in SETVARS[module].items():
        if name != "CCL_ROOT":
            rest = "" if name in ("I_MPI_ROOT", "FI_PROVIDER_PATH") else f"${{{name}:+:${name}}}"
            lines.append(f'export {name}="{value}{rest}"')
    return "\n".join(lines) + "\n"


# --- modules -------------------------------------------------------------------------------------

# Each says that it was imported, in which order, and the bindings say with which variables.
_TELL = """
import json, os, sys
def tell(**more):
    said = dict(more, rank=os.environ.get("PMI_RANK"), module=__name__)
    with open(os.path.join(sys.prefix, "standins.jsonl"), "a") as f:
        f.write(json.dumps(said) + chr(10))
"""
# One number, squared; `step` halves it. Enough for a loss to fall.
TRAINABLE = """
import contextlib, types
class _Number:
    def __init__(self, model): self.model, self.value = model, model.value ** 2
    def float(self): return self
    def __mul__(self, other): return self
    def mean(self): return self
    def backward(self): pass
    def item(self): return self.value
class _Model:
    value = 8.0
    def __init__(self, *size): pass
    def train(self): return self
    def parameters(self): return self
    def __call__(self, x): return _Number(self)
class _Sgd:
    def __init__(self, model, lr): self.model = model
    def zero_grad(self): pass
    def step(self): self.model.value /= 2
nn = types.SimpleNamespace(Linear=_Model)
optim = types.SimpleNamespace(SGD=_Sgd)
bfloat16, float32 = "bf16", "fp32"
def manual_seed(seed): pass
@contextlib.contextmanager
def autocast(device, dtype, enabled): yield
_ones = ones
def ones(*size, requires_grad=False): return _ones(*size, requires_grad=requires_grad)
"""
_TENSOR = """
class tensor(list):
    def __float__(self): return self[0]
"""
# Every rank leaves its number beside the rendezvous file and waits for the others'.
_DISTRIBUTED = """
import os, time
world = {}
def init_process_group(backend, init_method, rank, world_size):
    assert (backend, init_method[:7]) == ("gloo", "file://")
    world.update(path=init_method[7:], rank=rank, size=world_size)
def all_reduce(t):
    mine = "%s.%d" % (world["path"], world["rank"])
    with open(mine + ".part", "w") as f:
        f.write(repr(t[0]))
    os.rename(mine + ".part", mine)
    t[0] = sum(_number("%s.%d" % (world["path"], rank)) for rank in range(world["size"]))
def _number(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path) as f:
        return float(f.read())
def destroy_process_group(): pass
"""
_OPTIMIZE = """
def optimize(model, dtype, optimizer):
    return model, optimizer
"""
_NAMES = ("PATH", "LD_LIBRARY_PATH", "I_MPI_ROOT", "FI_PROVIDER_PATH", "CCL_ROOT")
_MPIRUN = """#!/bin/bash
# A stand-in: starts N processes here, as Intel MPI's would number them.
[ "$1" = -n ] || { echo "the stand-in of mpirun knows only -n" >&2; exit 2; }
size=$2; shift 2; pids=(); code=0
for ((i = 0; i < size; i++)); do
    PMI_RANK=$i PMI_SIZE=$size MPI_LOCALRANKID=$i "$@" & pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
"""


def torch(folder: Path, version: str, tag: str, *requires: str) -> Path:
    source = TORCH.format(version=version, gradient=128.0) + TRAINABLE + _TENSOR
    files = {
        "torch/__init__.py": f"{_TELL}tell(){source}".encode(),
        "torch/distributed.py": _DISTRIBUTED.encode(),
    }
    return make_wheel(folder, "torch", version, files, requires, tag=tag)


def ipex(folder: Path, version: str, tag: str) -> Path:
    files = {f"{IPEX}.py": f"{_TELL}tell()\n{_OPTIMIZE}".encode()}
    return make_wheel(folder, IPEX, version, files, tag=tag)


def bindings(folder: Path, version: str, tag: str, module: str) -> Path:
    """`oneccl_bind_pt` with the module of its era and that one's setvars.sh."""
    tell = f"{_TELL}tell(env={{n: os.environ.get(n) for n in {_NAMES!r}}})\n"
    files = {
        f"{module}/__init__.py": tell.encode(),
        f"{module}/env/setvars.sh": setvars_sh(module).encode(),
    }
    return make_wheel(folder, "oneccl_bind_pt", version, files, tag=tag)


def impi_rt(folder: Path, version: str, *requires: str) -> Path:
    """Its files go below the environment's own folder, as the real one's do."""
    files = {f"impi_rt-{version}.data/data/bin/mpirun": _MPIRUN.encode()}
    return make_wheel(folder, "impi_rt", version, files, requires)
