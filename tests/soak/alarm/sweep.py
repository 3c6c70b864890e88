"""Each rank tries its own learning rate; they are meant to be independent."""

import os

import torch

rate = 10.0 ** -int(os.environ["RANK"])
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
for step in range(20):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"lr {rate} step {step} loss {loss.item():.4f}", flush=True)
