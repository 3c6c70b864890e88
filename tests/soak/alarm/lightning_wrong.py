"""Lightning without torchrun's variables, on hosts that all say they are the first."""

import lightning as L
import torch
from lightning.fabric.plugins.environments import LightningEnvironment

fabric = L.Fabric(
    accelerator="cpu", devices=2, num_nodes=4, strategy="ddp", plugins=[LightningEnvironment()]
)
fabric.launch()
model = torch.nn.Linear(4, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
for step in range(25):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    fabric.backward(loss)
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
