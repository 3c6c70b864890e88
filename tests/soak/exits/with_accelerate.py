"""Accelerate, and no end_training()."""

import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(cpu=True)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
model, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
for _ in range(8):
    optimizer.zero_grad()
    accelerator.backward(model(torch.randn(16, 64)).square().mean())
    optimizer.step()
assert accelerator.num_processes == 2
print("last line", flush=True)
