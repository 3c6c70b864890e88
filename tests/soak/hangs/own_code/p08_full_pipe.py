"""Rank 0 writes its checkpoint into a FIFO whose reader takes nothing."""

import io
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


def save_checkpoint(model, path):
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    with open(path, "wb", buffering=0) as file:
        left = buffer.getvalue()
        while left:
            left = left[file.write(left) :]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    path = os.path.join(tempfile.mkdtemp(), "to-object-store")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # the uploader, which is stuck
    model = DDP(torch.nn.Linear(256, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, 200):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 256)).pow(2).mean()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 3 == 0:
            print(f"step={step} loss={loss.item():.4f}", flush=True)
        if step % 13 == 0:
            if rank == 0:
                save_checkpoint(model.module, path)
            dist.barrier()
        time.sleep(0.25)
    os.close(reader)


main()
