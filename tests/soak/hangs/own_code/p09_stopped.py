"""One rank is stopped, as by a debugger that went away or a Ctrl-Z."""

import os
import signal
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DDP(torch.nn.Linear(12, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(300):
    if rank == 2 and step == 14:
        os.kill(os.getpid(), signal.SIGSTOP)
    optimizer.zero_grad()
    loss = model(torch.randn(8, 12)).pow(2).mean()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(f"{step:03d} loss {loss.item():.5f}", flush=True)
    time.sleep(0.2)
dist.destroy_process_group()
