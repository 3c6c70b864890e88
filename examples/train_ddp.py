"""A small but real distributed training: DistributedDataParallel on CPUs, nothing but torch.

Started by `ipexctl run -n 6 -ppn 2 examples/train_ddp.py`, or alone by `python train_ddp.py`.
Every rank prints the loss over all ranks, so that all of them print the same number.
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

# Before init_process_group(). A later import, as DistributedDataParallel does it, keeps the process
# group in default arguments: gloo's threads would live until Python shuts down, and can abort it.
import torch.distributed.nn.functional  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def main() -> None:
    args = arguments()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group(os.environ.get("IPEXCTL_BACKEND", "gloo"))
    train(args)
    dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Small DDP training on made-up data.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="samples per rank and step")
    parser.add_argument("--steps", type=int, default=20, help="steps per epoch")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 where it is safe")
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds to wait in each epoch")
    parser.add_argument("--fail-rank", type=int, default=-1, help="this rank ends in epoch 2")
    parser.add_argument("--fail-code", type=int, default=3, help="and this is its exit code")
    return parser.parse_args()


def train(args: argparse.Namespace) -> None:
    rank = dist.get_rank()
    torch.manual_seed(0)  # the same model and the same target function on every rank
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1)),
    )
    target = nn.Linear(32, 1).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    samples = torch.Generator().manual_seed(1000 + rank)  # but its own samples
    for epoch in range(1, args.epochs + 1):
        if epoch == 2 and rank == args.fail_rank:
            print(f"rank {rank} exits, as requested with --fail-rank", flush=True)
            os._exit(args.fail_code)  # at once, like a crash: no goodbye to the other ranks
        total = torch.zeros(())
        for _ in range(args.steps):
            x = torch.randn(args.batch, 32, generator=samples)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
                loss = nn.functional.mse_loss(model(x), target(x))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach().float()
        dist.all_reduce(total)
        mean = total.item() / args.steps / dist.get_world_size()
        print(f"epoch {epoch} loss {mean:.4f}", flush=True)
        time.sleep(args.sleep)


if __name__ == "__main__":
    main()
