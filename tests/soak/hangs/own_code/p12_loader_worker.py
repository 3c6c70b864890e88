"""The DataLoader's worker of one rank hangs in the decoder; the training waits for its batch."""

import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Images(Dataset):
    def __init__(self, broken):
        self.broken = broken
        self.pipe = os.path.join(tempfile.mkdtemp(), "decoder.sock")
        os.mkfifo(self.pipe)

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return self.decode(index)

    def decode(self, index):
        if self.broken and index == 60:
            with open(self.pipe, "rb") as decoder:
                return torch.frombuffer(decoder.read(40), dtype=torch.float32)
        return torch.full((10,), index / 4000)


def next_batch(batches):
    return next(batches)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(
        Images(rank == 2), batch_size=4, num_workers=1, multiprocessing_context="fork"
    )
    model = DDP(torch.nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = iter(loader)
    for step in range(len(loader)):
        loss = model(next_batch(batches)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 5 == 0:
            print(f"{step}/{len(loader)} loss {loss.item():.4f}", flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
