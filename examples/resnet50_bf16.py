"""ResNet-50 with channels_last and bf16 autocast, in place of ipex.optimize(). Needs only torch.

    ipexctl install -f hosts
    ipexctl run -f hosts -ppn 2 examples/resnet50_bf16.py
    ipexctl run -n 2 examples/resnet50_bf16.py          # on this machine
    python examples/resnet50_bf16.py                    # one rank

Weights stay float32; autocast runs the convolutions in bf16. The script makes its images: each
class has its own stripes.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before init_process_group(): see train_ddp.py
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
CLASSES, SIZE = 4, 32


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8, help="images per rank and step")
    parser.add_argument("--compile", action="store_true", help="needs a C++ compiler on the hosts")
    args = parser.parse_args()

    os.environ.update({**ALONE, **os.environ})  # `python resnet50_bf16.py` is one rank
    dist.init_process_group("gloo")
    # DDP lives in train() alone: if it outlives destroy_process_group(), torch 2.13 can hang
    before, after = train(args)
    print(f"world size {dist.get_world_size()}, loss {before:.4f} -> {after:.4f}", flush=True)
    dist.destroy_process_group()
    if after >= before:
        raise SystemExit("the loss did not fall")


def train(args: argparse.Namespace) -> tuple[float, float]:
    """The first loss, and the mean of the last three."""
    torch.manual_seed(0)  # the same model on every rank
    model = resnet50().to(memory_format=torch.channels_last)
    parallel = DistributedDataParallel(model)
    run = torch.compile(parallel) if args.compile else parallel
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    losses = []
    started = time.monotonic()
    for step in range(args.steps):
        x, y = images(args.batch, seed=1000 * step + dist.get_rank())
        x = x.to(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = run(x)
        loss = nn.functional.cross_entropy(found.float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(average(loss.detach()))
        if dist.get_rank() == 0:
            print(f"step {step} loss {losses[-1]:.4f}", flush=True)
    rate = args.batch * args.steps * dist.get_world_size() / (time.monotonic() - started)
    if dist.get_rank() == 0:
        print(f"{rate:.1f} images/s in all", flush=True)
    return losses[0], sum(losses[-3:]) / 3


def average(loss: torch.Tensor) -> float:
    """Over all ranks."""
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def images(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=made)
    waves = torch.arange(SIZE) * (labels[:, None] + 1) * 0.4
    stripes = waves.sin()[:, None, None, :].expand(count, 3, SIZE, SIZE)
    return stripes + 0.3 * torch.randn(stripes.shape, generator=made), labels


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.path = nn.Sequential(
            *convolution(channels, width, 1), nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride), nn.ReLU(inplace=True),
            *convolution(width, out, 1),
        )  # fmt: skip
        nn.init.zeros_(self.path[-1].weight)  # each block begins as its shortcut
        self.shortcut = nn.Sequential()  # the input itself
        if channels != out or stride != 1:
            self.shortcut.extend(convolution(channels, out, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.path(x) + self.shortcut(x))


def convolution(channels: int, out: int, size: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    plain = nn.Conv2d(channels, out, size, stride, padding=size // 2, bias=False)
    return plain, nn.BatchNorm2d(out)


def resnet50() -> nn.Module:
    """The layers of torchvision.models.resnet50()."""
    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    channels = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(blocks):
            layers.append(Bottleneck(channels, width, stride if number == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, CLASSES))


if __name__ == "__main__":
    main()
