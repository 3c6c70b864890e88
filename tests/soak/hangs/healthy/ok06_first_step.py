"""The first step of one rank takes a minute of computing, as where a model is compiled there."""

import time

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


def compile_kernels(seconds):
    a = np.random.default_rng(0).normal(size=(300, 300))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        a = a @ a.T
        a /= np.abs(a).max()
    return a


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(20, 20))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if rank == 0:
        print("starting", flush=True)
    for step in range(40):
        if step == 0 and rank == 2:
            compile_kernels(68)
        loss = model(torch.randn(8, 20)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(0.25)
    dist.destroy_process_group()


main()
