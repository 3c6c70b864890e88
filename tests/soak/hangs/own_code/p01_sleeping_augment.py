"""DDP; the augmentation of one rank sleeps between retries that never come."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

RANK = int(os.environ["RANK"])
torch.set_num_threads(1)


def augment(batch, step):
    if RANK == 2 and step == 12:
        time.sleep(10**6)  # "back off until the quota is renewed"
    return batch + 0.01 * torch.randn_like(batch)


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(400):
        batch = augment(torch.randn(16, 8), step)
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if RANK == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(0.25)


dist.init_process_group("gloo")
torch.manual_seed(RANK)
train(DDP(torch.nn.Linear(8, 2)))
dist.destroy_process_group()
