"""DistributedDataParallel in bf16 with ipex.optimize, over gloo. Needs `install --stack ipex`.

Started by `ipexctl run -n 4 -ppn 2 examples/train_ipex.py`. IPEX has ended: see docs/stacks.md.
"""

import os

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before init_process_group(): see train_ddp.py
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# isort: split
import intel_extension_for_pytorch as ipex  # after torch, which it patches

STEPS = 20


def main() -> None:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # the same model and the same target function on every rank
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1)).train()
    target = nn.Linear(32, 1).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # before DDP: the optimized model has other parameters
    model, optimizer = ipex.optimize(model, optimizer=optimizer, dtype=torch.bfloat16)
    model = DistributedDataParallel(model)
    samples = torch.Generator().manual_seed(1000 + dist.get_rank())
    for epoch in range(1, 4):
        total = torch.zeros(())
        for _ in range(STEPS):
            x = torch.randn(64, 32, generator=samples)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = model(x)
            loss = nn.functional.mse_loss(y.float(), target(x))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        mean = total.item() / STEPS / dist.get_world_size()
        print(f"epoch {epoch} loss {mean:.4f}", flush=True)
    if dist.get_rank() == 0:
        print(f"torch {torch.__version__}, IPEX {ipex.__version__}, bf16, {dist.get_backend()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
