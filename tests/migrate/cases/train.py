"""Nothing to change here."""

import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--no-cuda", action="store_true", help="train on the CPU")
args = parser.parse_args()

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
with torch.autocast("cpu", dtype=torch.bfloat16):
    model(torch.rand(2, 4)).sum().backward()
