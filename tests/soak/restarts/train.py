"""train.py STEPS EVERY MB: a checkpoint of MB every EVERY steps, on as many ranks as there are.

Every step is a function of the step alone: the global batch of 12 is divided among the ranks.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

STEPS, EVERY, MEGABYTES = (int(word) for word in sys.argv[1:4])
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(100, 100)
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
first, checkpoint = 0, os.environ.get("IPEXCTL_CHECKPOINT")
if checkpoint:
    state = torch.load(checkpoint + "/state.pt")
    assert torch.equal(state["ballast"], torch.full_like(state["ballast"], state["step"]))
    first = state["step"]
    model.load_state_dict(state["model"])
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
print(f"rank {rank}/{size} attempt {attempt} from step {first}", flush=True)
for step in range(first, STEPS):
    x = torch.randn(12, 100, generator=torch.Generator().manual_seed(step))[rank::size]
    loss = (ddp(x) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(float(os.environ.get("PAUSE", "0.25")))
    if rank == 0 and (step + 1) % EVERY == 0:
        folder = f"out/checkpoint-{step + 1}"
        os.makedirs(folder, exist_ok=True)
        ballast = torch.full((MEGABYTES << 18,), step + 1, dtype=torch.int32)
        state = {"step": step + 1, "model": model.state_dict(), "ballast": ballast}
        torch.save(state, folder + "/state.pt")
        print(f"saved {step + 1}", flush=True)
    print(f"rank {rank} step {step + 1}", flush=True) if first <= step < first + 2 else None
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
if rank == 0:
    print(f"FINAL {weights.double().pow(2).sum().item():.6f}", flush=True)
dist.destroy_process_group()
