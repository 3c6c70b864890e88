"""What ranks do with torch.distributed, by name."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
one = torch.ones(1)


def joined(shape):
    """Whether there is a group of all ranks, formed in the way that the shape asks for."""
    if shape == "file":
        path = f"/tmp/meet-{os.environ['IPEXCTL_RUN_ID']}"
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=RANK, world_size=WORLD)
    elif shape == "tcp":
        place = f"tcp://{os.environ['MASTER_ADDR']}:{20000 + int(os.environ['MASTER_PORT']) % 9000}"
        dist.init_process_group("gloo", init_method=place, rank=RANK, world_size=WORLD)
    elif shape == "own-port":
        os.environ["MASTER_PORT"] = str(20000 + int(os.environ["MASTER_PORT"]) % 9000)
        dist.init_process_group("gloo")
    elif shape == "store":
        port = 20000 + int(os.environ["MASTER_PORT"]) % 9000
        store = dist.TCPStore(os.environ["MASTER_ADDR"], port, WORLD, RANK == 0)
        store.set(f"here{RANK}", "x" * 2000)
        store.wait([f"here{rank}" for rank in range(WORLD)])
        return False
    elif shape == "import":
        return False
    else:
        dist.init_process_group("gloo")
    return True


def steps(number):
    model = torch.nn.Linear(64, 64)
    wrapped = DistributedDataParallel(model)
    for step in range(number):
        loss = wrapped(torch.randn(8, 64)).square().mean()
        loss.backward()
        print("step", step, "loss", loss.item(), flush=True)
        time.sleep(0.2)


def act(shape):
    if shape in ("all-reduce", "file", "tcp", "own-port"):
        dist.all_reduce(one)
    elif shape == "broadcast":
        dist.broadcast(one, 0)
    elif shape == "barrier":
        dist.barrier()
    elif shape == "gather":
        dist.gather(one, [torch.ones(1) for _ in range(WORLD)] if RANK == 0 else None)
    elif shape == "ring":
        sent = dist.isend(one, (RANK + 1) % WORLD)
        dist.recv(torch.ones(1), (RANK - 1) % WORLD)
        sent.wait()
    elif shape == "halves":
        groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        dist.all_reduce(torch.ones(9000), group=groups[RANK // 2])
    elif shape == "ddp":
        steps(5)


if joined(sys.argv[1]):
    act(sys.argv[1])
    dist.destroy_process_group()
