"""What ranks do with torch.distributed, by name."""

import itertools
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

# spawned processes import this file, too
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
    elif shape in ("import", "alone") or shape.startswith("spawn"):
        return False
    elif shape == "one":
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
    elif shape == "half-world":  # each host for itself
        address = ("127.0.0.1", 20000 + int(os.environ["MASTER_PORT"]) % 9000)
        store = dist.TCPStore(*address, 2, RANK % 2 == 0)
        dist.init_process_group("gloo", store=store, rank=RANK % 2, world_size=2)
    else:
        dist.init_process_group("gloo")
    return True


def steps(number, wrapped):
    for step in range(number):
        loss = wrapped(torch.randn(8, 64)).square().mean()
        loss.backward()
        print("step", step, "loss", loss.item(), flush=True)
        time.sleep(0.2)


def work(_index, shape):
    """Of a process that a rank has started."""
    joined(shape.partition("-")[2])
    dist.all_reduce(one)
    if shape == "spawn-destroyed":
        dist.destroy_process_group()


def act(shape):
    model = torch.nn.Linear(64, 64)
    if shape in ("all-reduce", "file", "tcp", "own-port", "half-world", "kept"):
        dist.all_reduce(one)
    elif shape == "fsdp":
        from torch.distributed.fsdp import fully_shard

        steps(5, fully_shard(model))
    elif shape == "functional":
        from torch.distributed._functional_collectives import all_reduce

        all_reduce(one, "sum", dist.group.WORLD).wait()
    elif shape == "many":  # more than the recorder keeps, and the barriers come last
        dist.all_reduce(one)
        for _ in range(300):
            dist.barrier()
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
        steps(5, DistributedDataParallel(model))
    elif shape == "alone":
        steps(5, model)
    elif shape == "messages":
        # with every rank, so that none leaves while another is still connecting to it
        for lower, upper in itertools.combinations(range(WORLD), 2):
            if lower == RANK:
                dist.send(one, upper)
                dist.recv(one, upper)
            elif upper == RANK:
                dist.recv(one, lower)
                dist.send(one, lower)
    elif shape == "mpi4py":
        sys.modules["mpi4py.MPI"] = sys  # as if it had been imported
        dist.barrier()  # rank 0 has the store of all, and may not leave before they have joined
    elif shape == "raises":
        dist.all_reduce(one)
        raise ValueError(shape)
    elif shape == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif shape == "exits":
        dist.all_reduce(one)
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    name = sys.argv[1]
    if name.startswith("spawn"):
        mp.spawn(work, (name,), nprocs=1)
    elif joined(name) or name == "alone":
        act(name)
        if dist.is_initialized() and name != "kept":
            dist.destroy_process_group()
