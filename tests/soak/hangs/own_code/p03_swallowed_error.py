"""The prefetch thread of one rank fails and says nothing; the training waits for its next batch."""

import queue
import threading
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


class Prefetcher:
    def __init__(self, broken_at):
        self.batches = queue.Queue(maxsize=4)
        self.broken_at = broken_at
        threading.Thread(target=self.fill, daemon=True, name="prefetch").start()

    def fill(self):
        index = {n: n % 7 for n in range(1000) if n != self.broken_at}
        try:
            for n in range(1000):
                self.batches.put(torch.full((4, 6), float(index[n])))
        except Exception:
            pass  # noqa: S110 - the mistake of this script

    def next_batch(self):
        return self.batches.get()


dist.init_process_group("gloo")
rank = dist.get_rank()
prefetcher = Prefetcher(broken_at=14 if rank == 3 else -1)
weights = torch.zeros(6)
for step in range(1000):
    gradient = prefetcher.next_batch().mean(0) - weights
    dist.all_reduce(gradient)
    weights += 0.1 * gradient / dist.get_world_size()
    if rank == 0 and step % 3 == 0:
        print(f"[{step:4d}] |w| = {weights.norm():.3f}", flush=True)
    time.sleep(0.2)
