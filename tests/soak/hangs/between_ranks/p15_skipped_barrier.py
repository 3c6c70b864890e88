"""One rank believes that it needs no barrier before the next step, and goes on."""

import os
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
RANK = int(os.environ["RANK"])


def average(loss):
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def checkpoint(step):
    if RANK == 3 and step > 8:
        return  # "this one has nothing to save"
    if RANK == 0:
        time.sleep(0.1)
    dist.barrier()


dist.init_process_group("gloo")
for step in range(1000):
    loss = average(torch.rand(1))
    if RANK == 0 and step % 2 == 0:
        print(f"step {step} average loss {loss:.4f}", flush=True)
    if step % 4 == 3:
        checkpoint(step)
    time.sleep(0.25)
