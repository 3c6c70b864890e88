"""One rank has one batch less than the others (uneven data) and leaves the loop before them."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
rank = int(os.environ["RANK"])


def loader_of(rank):
    samples = 48 if rank == 1 else 52
    return DataLoader(TensorDataset(torch.randn(samples, 6), torch.randn(samples, 1)), batch_size=4)


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 2 == 0:
            print(f"batch {step}: loss {loss.item():.4f}", flush=True)
        time.sleep(0.25)


def finish_epoch():
    dist.barrier()


dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(6, 1))
for _ in range(10):
    train(model, loader_of(rank))
    finish_epoch()
dist.destroy_process_group()
