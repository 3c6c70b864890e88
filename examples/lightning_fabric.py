"""Lightning Fabric: your own loop over the handwritten digits that scikit-learn brings.

    ipexctl install -f hosts -r examples/requirements.txt
    ipexctl run -f hosts -ppn 2 examples/lightning_fabric.py
    ipexctl run -n 2 examples/lightning_fabric.py       # on this machine
    python examples/lightning_fabric.py                 # one rank

Fabric needs the number of ranks per host and of hosts; ipexctl sets a variable for each.
"""

import argparse
import os

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--precision", default="32-true", help="or bf16-mixed")
    args = parser.parse_args()

    hosts = int(os.environ.get("GROUP_WORLD_SIZE", "1"))
    ranks_per_host = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    fabric = L.Fabric(
        accelerator="cpu", devices=ranks_per_host, num_nodes=hosts, precision=args.precision,
        strategy="ddp" if hosts * ranks_per_host > 1 else "auto",
    )  # fmt: skip
    fabric.launch()
    fabric.seed_everything(0, verbose=False)  # the same model on every rank

    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(y)
    training = DataLoader(TensorDataset(x[300:], y[300:]), batch_size=16, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 6 * 6, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model, optimizer = fabric.setup(model, optimizer)
    training = fabric.setup_dataloaders(training)  # with a DistributedSampler

    before = evaluate(model, x[:300], y[:300])
    for epoch in range(1, args.epochs + 1):
        for images, digits in training:
            optimizer.zero_grad()
            fabric.backward(nn.functional.cross_entropy(model(images), digits))
            optimizer.step()
        after = evaluate(model, x[:300], y[:300])
        fabric.print(f"epoch {epoch} loss {after:.4f}", flush=True)
    print(f"world size {fabric.world_size}, loss {before:.4f} -> {after:.4f}", flush=True)
    if after >= before:
        raise SystemExit("the loss did not fall")


def evaluate(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """On the same digits on every rank: equal numbers mean equal models."""
    with torch.no_grad():
        return nn.functional.cross_entropy(model(x), y).item()


if __name__ == "__main__":
    main()
