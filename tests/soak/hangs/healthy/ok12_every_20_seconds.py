"""The ranks look for work now and then, as a cron job does, and agree every 20 seconds."""

import os
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def poll(seconds):
    found = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found += sum(name.endswith(".job") for name in os.listdir("."))
        time.sleep(5)
    return found


dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 0:
    print("looking for work", flush=True)
total = torch.zeros(1)
for _ in range(4):
    total[0] = poll(20)
    dist.all_reduce(total)
if rank == 0:
    print(f"{total.item():.0f} jobs", flush=True)
dist.barrier()
dist.destroy_process_group()
