"""Steps of 12 seconds on every rank; a line comes with the first and the last."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


def accumulate(model, seconds):
    losses = []
    end = time.monotonic() + seconds
    with model.no_sync():
        while time.monotonic() < end:
            loss = model(torch.randn(64, 128)).pow(2).mean()
            loss.backward()
            losses.append(loss.item())
    model(torch.randn(64, 128)).pow(2).mean().backward()
    return sum(losses) / len(losses)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Tanh()))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for step in range(6):
        optimizer.zero_grad()
        loss = accumulate(model, 12)
        optimizer.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


main()
