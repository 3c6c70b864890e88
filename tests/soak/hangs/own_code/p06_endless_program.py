"""One rank unpacks a shard with another program, which never ends."""

import subprocess
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
RETRY = "until test -e /nonexistent/shard.tar; do sleep 2; done; tar -xf /nonexistent/shard.tar"


def unpack(shard, rank):
    if rank == 1 and shard == 2:
        subprocess.run(["/bin/sh", "-c", RETRY], check=True, capture_output=True)
    return [torch.randn(4, 3) for _ in range(6)]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(3, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for shard in range(40):
        for batch in unpack(shard, rank):
            optimizer.zero_grad()
            loss = model(batch).square().sum()
            loss.backward()
            optimizer.step()
            time.sleep(0.25)
        if rank == 0:
            print(f"shard {shard + 1}/40 done, loss {loss.item():.3f}", flush=True)


main()
