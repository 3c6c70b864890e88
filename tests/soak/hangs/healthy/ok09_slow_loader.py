"""A data loader that needs 10 seconds for a batch, in its worker; a line for each epoch."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Films(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        time.sleep(2.5)  # a decoder, or a network drive
        return torch.full((16,), float(index)) / 32


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Films(), batch_size=4, num_workers=1, multiprocessing_context="fork")
    if rank == 0:
        print(f"{len(loader)} batches", flush=True)
    total = 0.0
    for batch in loader:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    if rank == 0:
        print(f"epoch 0: loss {total / len(loader):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
