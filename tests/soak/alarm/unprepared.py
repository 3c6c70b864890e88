"""Accelerate joins the ranks, and nothing is prepared."""

import time

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(25):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    accelerator.backward(loss)
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
    time.sleep(0.8)
accelerator.wait_for_everyone()
