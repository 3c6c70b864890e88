"""Rank 0 writes a checkpoint for a minute, in small pieces to a slow file system."""

import io
import os
import tempfile
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def write_slowly(data, path, seconds):
    pieces = 300
    size = -(-len(data) // pieces)
    with open(path, "wb") as file:
        for n in range(pieces):
            file.write(data[n * size : (n + 1) * size])
            file.flush()
            os.fsync(file.fileno())
            time.sleep(seconds / pieces)


def save(model, seconds):
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    with tempfile.TemporaryDirectory() as folder:
        write_slowly(buffer.getvalue(), os.path.join(folder, "model.pt"), seconds)


dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(500, 500)
for step in range(32):
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()
    if rank == 0 and step % 4 == 0:
        print(f"step {step}", flush=True)
    if step == 16:
        if rank == 0:
            save(model, 66)
        dist.barrier()
    time.sleep(0.25)
dist.destroy_process_group()
