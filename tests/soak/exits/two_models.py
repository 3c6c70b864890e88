"""Two models with groups of their own, and no destroy_process_group()."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
groups = [dist.new_group(), dist.new_group()]
makes = DistributedDataParallel(nn.Linear(32, 64), process_group=groups[0])
judges = DistributedDataParallel(nn.Linear(64, 1), process_group=groups[1])
optimizer = torch.optim.Adam([*makes.parameters(), *judges.parameters()])
for _ in range(8):
    optimizer.zero_grad()
    judges(makes(torch.randn(16, 32))).square().mean().backward()
    optimizer.step()
handle = dist.all_reduce(torch.ones(1), async_op=True)
handle.wait()
print("last line", flush=True)
