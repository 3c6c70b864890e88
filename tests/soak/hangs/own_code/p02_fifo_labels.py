"""One rank opens its labels, which are a FIFO that nobody writes to."""

import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


def read_labels(path):
    with open(path) as file:
        return [int(line) for line in file]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = tempfile.mkdtemp()
    labels = os.path.join(folder, "labels-part2.txt")
    os.mkfifo(labels)
    model = DDP(
        torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 1))
    )
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(50):
        if epoch == 3 and rank == 1:
            read_labels(labels)
        for _ in range(5):
            loss = (model(torch.randn(8, 10)) - 1).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.2)
        if rank == 0:
            print(f"epoch {epoch}: loss={loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
