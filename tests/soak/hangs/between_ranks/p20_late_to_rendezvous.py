"""Each rank tries its data alone, then they meet; one waits for a file and does not come."""

import os
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank = int(os.environ["RANK"])


def try_alone():
    weights = torch.zeros(20)
    for step in range(12):
        weights += 0.1 * (torch.randn(20) - weights)
        if rank == 0 and step % 3 == 0:
            print(f"dry run, step {step}: {weights.norm():.3f}", flush=True)
        time.sleep(0.25)


def wait_for_data(path):
    while not os.path.exists(path):
        time.sleep(0.05)


try_alone()
if rank == 3:
    wait_for_data("/nonexistent/corpus/_SUCCESS")
dist.init_process_group("gloo")
dist.barrier()
print("together", flush=True)
dist.destroy_process_group()
