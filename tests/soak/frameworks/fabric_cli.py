"""For `fabric run`: which devices and nodes there are comes from its options."""

import torch
from lightning.fabric import Fabric
from report import report

fabric = Fabric()
model = torch.nn.Linear(64, 10)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
for _ in range(6):
    optimizer.zero_grad()
    images, digits = torch.randn(16, 64), torch.randint(0, 10, (16,))
    fabric.backward(torch.nn.functional.cross_entropy(model(images), digits))
    optimizer.step()
report(fabric.world_size, model.parameters())
