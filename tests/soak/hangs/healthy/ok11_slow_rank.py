"""One rank is much slower than the others: it computes for 8 seconds in each step."""

import math
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


def simulate(seconds):
    x, n = 0.5, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        x = math.sin(x * 3.7) ** 2 + 1e-9 * n
        n += 1
    return x


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(9):
        start = simulate(8 if rank == 1 else 0.1)
        loss = (model(torch.full((2, 4), start)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


main()
