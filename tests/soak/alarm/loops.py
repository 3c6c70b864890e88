"""Small trainings with plain torch, one for each way in which ranks work together or do not."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

kind = sys.argv[1]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def train(model, steps=25, pause=0.8, every=1, say=True):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        if step % every == every - 1:
            optimizer.step()
            optimizer.zero_grad()
        if say:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(pause)


def preprocess(seconds):
    for second in range(seconds):
        print(f"tokenizing: {second}/{seconds} shards", flush=True)
        time.sleep(1)


def no_sync():
    model = DDP(torch.nn.Linear(4, 1))
    with model.no_sync():
        train(model, steps=24, pause=1.0, every=1000)
    train(model, steps=1)


def evaluate_on_one():
    if rank == 0:
        for step in range(20):
            print(f"eval {step}: eval_loss 0.{step}", flush=True)
            time.sleep(1)
    train(DDP(torch.nn.Linear(4, 1)))


torch.manual_seed(rank)
if kind == "preprocess":
    preprocess(int(sys.argv[2]))
    dist.init_process_group("gloo")
    train(DDP(torch.nn.Linear(4, 1)), steps=5)
elif kind == "own-port":
    address = f"tcp://{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
    train(DDP(torch.nn.Linear(4, 1)))
elif kind == "own-port-alone":
    address = f"tcp://{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
    train(torch.nn.Linear(4, 1))
elif kind == "file":
    there = f"file:///tmp/rendezvous-{os.environ['IPEXCTL_RUN_ID']}"
    dist.init_process_group("gloo", init_method=there, rank=rank, world_size=world)
    train(DDP(torch.nn.Linear(4, 1)))
else:
    dist.init_process_group("gloo")
    if kind == "joined":
        train(torch.nn.Linear(4, 1))
        dist.barrier()
    elif kind == "halves":
        half = world // 2
        groups = [dist.new_group(list(range(half))), dist.new_group(list(range(half, world)))]
        train(DDP(torch.nn.Linear(4, 1), process_group=groups[rank // half]))
    elif kind == "no-sync":
        no_sync()
    elif kind == "evaluate":
        evaluate_on_one()
    elif kind == "wrapped":
        train(DDP(torch.nn.Linear(4, 1)))
if dist.is_initialized():
    dist.destroy_process_group()
