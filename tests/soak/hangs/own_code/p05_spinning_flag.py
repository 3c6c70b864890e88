"""One rank spins until a flag is set by a thread that has ended."""

import threading
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
ready = False


def warm_cache(works):
    global ready
    time.sleep(0.5)
    if works:
        ready = True


def wait_for_cache():
    while not ready:
        pass


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
features = torch.randn(5)
for step in range(200):
    if step == 12:
        threading.Thread(target=warm_cache, args=(rank != 2,)).start()
        wait_for_cache()
    seen = [torch.empty(5) for _ in range(world)]
    dist.all_gather(seen, features)
    features = torch.stack(seen).mean(0) + 0.1 * torch.randn(5)
    if rank == 0:
        print(f"round {step} mean {features.mean():.3f}", flush=True)
    time.sleep(0.25)
dist.destroy_process_group()
