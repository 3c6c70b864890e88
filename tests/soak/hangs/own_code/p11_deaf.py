"""One rank blocks every signal in a section that must not be interrupted, and sleeps in it."""

import signal
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def commit_results():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        time.sleep(30)


dist.init_process_group("gloo")
rank = dist.get_rank()
count = torch.zeros(1)
for step in range(12):
    count += rank
    dist.all_reduce(count)
    if rank == 0:
        print(f"sample {step}: {count.item():.0f}", flush=True)
    count.zero_()
    time.sleep(0.25)
if rank == 3:
    commit_results()
dist.barrier()
dist.destroy_process_group()
