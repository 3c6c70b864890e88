"""A native library of one rank does not return, and holds Python's global lock meanwhile."""

import ctypes
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
native = ctypes.PyDLL(None)  # unlike CDLL, it keeps the lock


def resize_images(rank, step):
    while rank == 1 and step == 12:
        native.sleep(100000)
    return torch.randn(2, 30)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(30, 5))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(500):
        images = resize_images(rank, step)
        loss = model(images).exp().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 2 == 0:
            print("step", step, "loss", f"{loss.item():.3f}", flush=True)
        time.sleep(0.25)
    dist.destroy_process_group()


main()
