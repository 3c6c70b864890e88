"""Rank 0 evaluates for more than a minute while the others wait in a barrier."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


@torch.no_grad()
def evaluate(model, seconds):
    right = total = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        x = torch.randn(256, 64)
        right += (model(x).argmax(1) == x[:, :10].argmax(1)).sum().item()
        total += 256
    return right / total


def train(model, rank, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x = torch.randn(32, 64)
        loss = torch.nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
        time.sleep(0.2)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    body = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    model = DDP(body)
    train(model, rank, 20)
    if rank == 0:
        print(f"accuracy {evaluate(model.module, 67):.3f}", flush=True)
    dist.barrier()
    train(model, rank, 20)
    dist.destroy_process_group()


main()
