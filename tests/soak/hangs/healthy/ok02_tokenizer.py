"""Every rank tokenizes its part of a corpus before the training, and prints nothing meanwhile."""

import os
import re
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
WORD = re.compile(r"\w+|[^\w\s]")


def tokenize(text, vocabulary):
    return [vocabulary.setdefault(word, len(vocabulary)) for word in WORD.findall(text)]


def tokenize_part(seconds):
    vocabulary, count, n = {}, 0, rank
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        text = " ".join(f"w{(n * k) % 30011}, it's." for k in range(200))
        count += len(tokenize(text, vocabulary))
        n += 4
    return vocabulary, count


vocabulary, count = tokenize_part(66 + rank)
if rank == 0:
    print(f"{count} tokens, vocabulary of {len(vocabulary)}", flush=True)
dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 16)).pow(2).mean()
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 4 == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)
    time.sleep(0.3)
dist.destroy_process_group()
