"""Rank 0 sends the settings of the next phase while the others still average."""

import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def average(values):
    dist.all_reduce(values)
    return values / dist.get_world_size()


def share_settings(settings):
    dist.broadcast(settings, src=0)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    values, settings = torch.randn(100), torch.tensor([0.1, 0.9])
    for step in range(100):
        last = 12 if rank == 0 else 13  # one of them counts from 1
        if step == last:
            share_settings(settings)
        values = average(values + 0.01 * rank)
        if rank == 0:
            print(f"phase 1, step {step}: {values.mean():.4f}", flush=True)
        time.sleep(0.25)


main()
