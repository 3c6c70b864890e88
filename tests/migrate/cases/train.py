"""Nothing to change here."""

import argparse

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # DistributedDataParallel imports it too late for gloo


def train():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.rand(2, 4)).sum().backward()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--no-cuda", action="store_true", help="train on the CPU")
args = parser.parse_args()

dist.init_process_group("gloo")
train()
dist.destroy_process_group()
