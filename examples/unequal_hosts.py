"""Hosts of unequal speed: each rank computes the part of the global batch that its host can do.

    ipexctl run -f hosts -ppn 1 examples/unequal_hosts.py
    ipexctl run -n 2 examples/unequal_hosts.py --shares 0.2,0.8    # to try it with equal hosts

This script reads IPEXCTL_SHARE, so ipexctl measures how fast the hosts compute and sets it: a
number for each rank, 1 for all together. DistributedDataParallel averages the gradients of the
ranks with equal weight, so each rank divides its sum of losses by the global batch and multiplies
it by the number of ranks: its mean loss, times its share, times the number of ranks.
"""

import argparse
import os
import time

for name, alone in (
    ("RANK", "0"),
    ("WORLD_SIZE", "1"),
    ("MASTER_ADDR", "127.0.0.1"),
    ("MASTER_PORT", "29400"),
):
    os.environ.setdefault(name, alone)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.nn.functional  # noqa: E402  before the group: see train_ddp.py
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description="Training on hosts of unequal speed.")
    parser.add_argument("--batch", type=int, default=512, help="samples per step of all ranks")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--width", type=int, default=512, help="of the model's layers")
    parser.add_argument("--shares", default="", help="of all ranks, instead of IPEXCTL_SHARE")
    args = parser.parse_args()
    dist.init_process_group(os.environ.get("IPEXCTL_BACKEND", "gloo"))
    train(args)
    dist.destroy_process_group()


def own_part(batch: int, given: str) -> slice:
    """The samples of this rank. Those of all ranks are the batch, each sample once."""
    rank, world = dist.get_rank(), dist.get_world_size()
    shares = [1 / world] * world
    if given:
        shares = [float(share) for share in given.split(",")]
    else:
        own = float(os.environ.get("IPEXCTL_SHARE", 1 / world))
        dist.all_gather_object(shares, own)
    edges = [round(batch * sum(shares[:i])) for i in range(world + 1)]
    return slice(edges[rank], edges[rank + 1])


def train(args: argparse.Namespace) -> None:
    world, part = dist.get_world_size(), own_part(args.batch, args.shares)
    torch.manual_seed(0)  # the same model and the same target function on every rank
    wide = [nn.Linear(64, args.width), nn.Tanh(), nn.Linear(args.width, args.width), nn.Tanh()]
    model = DistributedDataParallel(nn.Sequential(*wide, nn.Linear(args.width, 1)))
    target = nn.Linear(64, 1).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    losses, began = [], time.monotonic()
    for _ in range(args.steps):
        x = torch.randn(args.batch, 64)[part]  # from the seed above: the same batch on every rank
        summed = nn.functional.mse_loss(model(x), target(x), reduction="sum")
        loss = summed / args.batch * world
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach() / world
        dist.all_reduce(total)
        losses.append(total.item())
    rate = args.steps / (time.monotonic() - began)
    samples = part.stop - part.start
    print(f"rank {dist.get_rank()}: {samples} of {args.batch} samples, {rate:.2f} steps/s")
    print(f"world size {world}, loss {losses[0]:.6f} -> {losses[-1]:.6f}", flush=True)
    if losses[-1] >= losses[0]:
        raise SystemExit("the loss did not fall")


if __name__ == "__main__":
    main()
