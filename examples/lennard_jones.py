"""A graph network learns energies and forces of atoms: message passing, DDP. Needs only torch.

    ipexctl install -f hosts
    ipexctl run -f hosts -ppn 1 examples/lennard_jones.py
    python examples/lennard_jones.py                    # one rank

The clusters of atoms and their Lennard-Jones energies are made by the script. --data FILE takes
your own, saved by torch: {"positions": [N, atoms, 3], "energy": [N], "forces": [N, atoms, 3]}.
The model's forces are the gradient of its energy, so the gradient of the loss is a second one.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # noqa: F401  before the group: see train_ddp.py
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
CUTOFF, RADIAL = 3.0, 16


def main() -> None:
    parser = argparse.ArgumentParser(description="Energies and forces by message passing.")
    parser.add_argument("--data", help="your own clusters, instead of made ones")
    parser.add_argument("--atoms", type=int, default=8)
    parser.add_argument("--clusters", type=int, default=2048, help="of all ranks, 1/8 are for test")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32, help="clusters per rank and step")
    parser.add_argument("--width", type=int, default=64, help="of the atoms' states")
    args = parser.parse_args()
    os.environ.update({**ALONE, **os.environ})
    dist.init_process_group(os.environ.get("IPEXCTL_BACKEND", "gloo"))
    train(args)
    dist.destroy_process_group()


def train(args: argparse.Namespace) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same clusters and the same model on every rank
    data = torch.load(args.data) if args.data else clusters(args.clusters, args.atoms)
    size = len(data["energy"])
    test = {name: values[: size // 8] for name, values in data.items()}
    own = {name: values[size // 8 + rank :: world] for name, values in data.items()}
    model = DistributedDataParallel(Potential(args.width))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    before, began = loss_of(model.module, test).item(), time.monotonic()
    for step in range(1, args.steps + 1):
        picked = torch.randint(len(own["energy"]), (args.batch,))
        loss = loss_of(model, {name: values[picked] for name, values in own.items()})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step}/{args.steps} loss {loss.item():.4f}", flush=True)
    rate = args.steps * args.batch * world / (time.monotonic() - began)
    after = loss_of(model.module, test).item()
    if rank == 0:
        print(f"world size {world}: {rate:.1f} clusters/s", flush=True)
    print(f"world size {world}, loss {before:.4f} -> {after:.4f}", flush=True)
    if after >= before:
        raise SystemExit("the loss did not fall")


def loss_of(model: nn.Module, data: dict[str, torch.Tensor]) -> torch.Tensor:
    energy, forces = model(data["positions"])
    per_atom = (energy - data["energy"]) / data["positions"].shape[1]
    return per_atom.square().mean() + (forces - data["forces"]).square().mean()


class Potential(nn.Module):
    """Each pair of atoms within the cutoff exchanges messages that depend on its distance."""

    def __init__(self, width: int, layers: int = 3) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(width))
        self.filters = nn.ModuleList(perceptron(RADIAL, width) for _ in range(layers))
        self.updates = nn.ModuleList(perceptron(width, width) for _ in range(layers))
        self.energy = perceptron(width, width)

    def forward(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            positions = positions.detach().requires_grad_()
            distance = distances(positions)
            near = 0.5 * (1 + torch.cos(torch.pi * distance.clamp(max=CUTOFF) / CUTOFF))
            near = near * (1 - torch.eye(positions.shape[1]))  # no atom is its own neighbour
            centers = torch.linspace(0.8, CUTOFF, RADIAL)
            radial = torch.exp(-8 * (distance[..., None] - centers) ** 2)
            states = self.start.expand(*positions.shape[:2], -1)
            for filters, update in zip(self.filters, self.updates, strict=True):
                weights = filters(radial) * near[..., None]
                states = states + update(torch.einsum("bijw,bjw->biw", weights, states))
            energy = self.energy(states).mean(2).sum(1)
            (slope,) = torch.autograd.grad(energy.sum(), positions, create_graph=self.training)
        return energy, -slope


def perceptron(inner: int, outer: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inner, 64), nn.SiLU(), nn.Linear(64, outer))


def distances(positions: torch.Tensor) -> torch.Tensor:
    """From every atom to every other; 1 to itself, where a root has no slope."""
    apart = positions[:, :, None] - positions[:, None]
    return (apart.square().sum(-1) + torch.eye(positions.shape[1])).sqrt()


def clusters(count: int, atoms: int) -> dict[str, torch.Tensor]:
    """Atoms on a grid, moved a little, with their Lennard-Jones energies and forces."""
    side = round(atoms ** (1 / 3) + 0.499)
    grid = torch.cartesian_prod(*[torch.arange(side) * 1.2] * 3)[:atoms]
    positions = (grid + 0.05 * torch.randn(count, atoms, 3)).requires_grad_()
    sixth = distances(positions) ** -6 * (1 - torch.eye(atoms))
    energy = 2 * (sixth**2 - sixth).sum((1, 2))  # each pair counts twice in the sum
    (slope,) = torch.autograd.grad(energy.sum(), positions)
    return {"positions": positions.detach(), "energy": energy.detach(), "forces": -slope}


if __name__ == "__main__":
    main()
