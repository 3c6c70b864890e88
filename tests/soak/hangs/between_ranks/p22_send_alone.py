"""Rank 0 sends its weights to a rank that does not ask for them."""

import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def push_weights(weights, peer):
    dist.send(weights, dst=peer)


def pull_weights(weights, peer):
    dist.recv(weights, src=peer)


def exchange(rank, step, weights):
    if step % 4 != 0:
        return
    if rank == 0:
        push_weights(weights, 1)
    elif rank == 1 and step < 12:
        pull_weights(weights, 0)


def average(weights):
    dist.all_reduce(weights)
    weights /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weights = torch.randn(1000)
    for step in range(200):
        exchange(rank, step, weights)
        average(weights)
        if rank == 0:
            print(f"sync {step}: {weights.mean():+.4f}", flush=True)
        time.sleep(0.25)


main()
