"""A training that began with IPEX's fused optimizers goes on in stock PyTorch.

    ipexctl install -f hosts
    ipexctl run -f hosts -ppn 2 examples/ipex_optimizer_state.py

goes on from a checkpoint made by hand with the keys and types that IPEX 2.8 writes: this half is
tested. With IPEX (it has ended, see docs/stacks.md) --save writes a real one; that half is not:

    ipexctl install --stack ipex
    ipexctl run -n 1 --outputs ipex.pt examples/ipex_optimizer_state.py --save ipex.pt
    ipexctl install -f hosts --stack stock
    ipexctl run -f hosts -ppn 2 examples/ipex_optimizer_state.py --load ipex.pt

What IPEX 2.8 writes, read in its source (optim/_functional.py, optim/_optimizer_utils.py):
ipex.optimize() fuses the steps of SGD, Adagrad, Adam and its own Lamb and Lars. The optimizer keeps
blocked tensors and halves of weights inside, but state_dict() has plain float32 tensors under the
names of torch.optim: step, exp_avg, exp_avg_sq (Adam), sum (Adagrad), momentum_buffer (SGD). The
model's state_dict() is plain and float32, too. Lamb and Lars have no class in torch.optim.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before init_process_group(): see train_ddp.py
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
FUSED_KEYS = {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "sum", "momentum_buffer"}
STEPS = 20
LR = 0.003


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", metavar="FILE", help="train with IPEX and save")
    parser.add_argument("--load", metavar="FILE", help="go on from this checkpoint")
    args = parser.parse_args()
    os.environ.update({**ALONE, **os.environ})  # `python ipex_optimizer_state.py` is one rank
    dist.init_process_group("gloo")
    if args.save:
        before, after = save_with_ipex(args.save)
    else:
        before, after = go_on(torch.load(args.load) if args.load else made_by_hand())
    print(f"world size {dist.get_world_size()}, loss {before:.4f} -> {after:.4f}", flush=True)
    dist.destroy_process_group()
    if after >= before:
        raise SystemExit("the loss did not fall")


def go_on(checkpoint: dict) -> tuple[float, float]:
    """The loss of the checkpoint, and after more steps."""
    model = new_model()  # in float32: torch casts what it loads to the type of the parameters
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)  # as ipex.optimize() was given
    check(checkpoint)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    parallel = DistributedDataParallel(model)
    before = evaluate(model)
    train(parallel, optimizer, seed=1 + dist.get_rank())
    steps = {int(state["step"]) for state in optimizer.state.values()}
    if dist.get_rank() == 0:
        print(f"the optimizer went on to step {', '.join(map(str, steps))}", flush=True)
    return before, evaluate(model)


def check(checkpoint: dict) -> None:
    """Stops at what torch.optim would load without a word and not use as IPEX did."""
    weights = list(checkpoint["model"].values())
    for number, state in checkpoint["optimizer"]["state"].items():
        if unknown := state.keys() - FUSED_KEYS:
            raise SystemExit(f"parameter {number} has {unknown}, which torch.optim does not know")
        for name, value in state.items():
            if name != "step" and value is not None and value.shape != weights[number].shape:
                raise SystemExit(f"{name} of parameter {number} is in a layout of IPEX")


def made_by_hand() -> dict:
    """As save_with_ipex() leaves it: some steps of Adam, in IPEX's names and types."""
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    train(model, optimizer, seed=0)
    saved = optimizer.state_dict()
    for state in saved["state"].values():
        state["step"] = torch.tensor(float(state["step"]))
        state["exp_avg"], state["exp_avg_sq"] = (
            state[name].float().contiguous() for name in ("exp_avg", "exp_avg_sq")
        )
    return {"model": model.state_dict(), "optimizer": saved}


def save_with_ipex(file: str) -> tuple[float, float]:
    """Needs IPEX 2.8, and one rank."""
    import intel_extension_for_pytorch as ipex  # noqa: PLC0415  stock hosts lack it

    model = new_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    before = evaluate(model)
    model, optimizer = ipex.optimize(model.train(), optimizer=optimizer, dtype=torch.bfloat16)
    train(model, optimizer, seed=0)
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(saved, file)
    plain = new_model()
    plain.load_state_dict(saved["model"])
    return before, evaluate(plain)


def new_model() -> nn.Module:
    torch.manual_seed(0)  # the same on every rank
    return nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))


def samples(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(count, 32, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :4].sum(1, keepdim=True).tanh()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    x, y = samples(64 * STEPS, seed)
    for inputs, wanted in zip(x.split(64), y.split(64), strict=True):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = model(inputs)
        nn.functional.mse_loss(found.float(), wanted).backward()
        optimizer.step()


def evaluate(model: nn.Module) -> float:
    """On the same samples on every rank: equal numbers mean equal models."""
    x, y = samples(512, seed=10_000)
    with torch.no_grad():
        return nn.functional.mse_loss(model(x), y).item()


if __name__ == "__main__":
    main()
