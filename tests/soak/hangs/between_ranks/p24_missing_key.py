"""One rank asks the store for a key that no rank sets: the writer spells it otherwise."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def look_up_seed(store):
    return int(store.get("seed/epoch-1"))


def main():
    dist.init_process_group("gloo")
    store = dist.distributed_c10d._get_default_store()
    store.set_timeout(timedelta(hours=12))
    for step in range(12):
        loss = torch.rand(1)
        dist.all_reduce(loss)
        if rank == 0 and step % 4 == 0:
            print(f"epoch 0 step {step}: {loss.item() / world:.3f}", flush=True)
        time.sleep(0.25)
    if rank == 0:
        store.set("seed/epoch_1", "17")
    if rank == 2:
        torch.manual_seed(look_up_seed(store))
    dist.barrier()
    print("epoch 1", flush=True)
    dist.destroy_process_group()


main()
