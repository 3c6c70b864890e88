"""Two threads of rank 0 take two locks in different order."""

import threading
import time

import numpy as np
import torch
import torch.distributed as dist

torch.set_num_threads(1)
stats_lock, file_lock = threading.Lock(), threading.Lock()
stats = {"loss": [], "written": 0}


def flush_metrics():
    with stats_lock:
        time.sleep(0.3)
        with file_lock:
            stats["written"] += len(stats["loss"])
            stats["loss"].clear()


def rotate_log():
    with file_lock:
        time.sleep(0.3)
        with stats_lock:
            stats["written"] = 0


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    x = np.random.default_rng(rank).normal(size=(64, 4))
    w = torch.zeros(4)
    for step in range(500):
        grad = torch.from_numpy(x.T @ (x @ w.numpy() - 1) / 64).float()
        dist.all_reduce(grad)
        w -= 0.05 * grad
        stats["loss"].append(float(np.square(x @ w.numpy() - 1).mean()))
        if rank == 0 and step % 5 == 0:
            print("iteration", step, "loss", round(stats["loss"][-1], 4), flush=True)
        if rank == 0 and step == 15:
            threading.Thread(target=rotate_log, daemon=True).start()
            flush_metrics()
        time.sleep(0.2)
    dist.destroy_process_group()


main()
