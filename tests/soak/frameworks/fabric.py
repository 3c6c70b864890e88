"""Lightning Fabric: the loop by hand."""

import lightning as L
import torch
from report import report

fabric = L.Fabric(accelerator="cpu", devices=2, num_nodes=4, strategy="ddp")
fabric.launch()
torch.manual_seed(fabric.global_rank)
model = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = fabric.setup(model, optimizer)
for step in range(6):
    loss = model(torch.randn(32, 64)).pow(2).mean()
    fabric.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    fabric.print(f"step {step} loss {loss.item():.4f}")
report(fabric.world_size, model.parameters())
