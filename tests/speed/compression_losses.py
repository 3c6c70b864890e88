"""A script of two ranks: gradients that fp16 loses, or not. The first argument is the case."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

CASE, STEPS = sys.argv[1], 40
dist.init_process_group("gloo")
RANK = dist.get_rank()


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(64, 64), nn.Linear(64, 64)
        self.lstm = nn.LSTM(64, 64, batch_first=True)

    def forward(self, tokens):
        return self.out(self.lstm(self.words(tokens))[0])


class TwoBranches(nn.Module):
    """With what has gradients of rounding errors alone: biases before a norm, and of keys."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU())
        self.block = nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True)
        self.head, self.auxiliary = nn.Linear(256, 10), nn.Linear(64, 4)

    def forward(self, x):
        inside = self.block(self.body(x).view(16, 4, 256)).reshape(64, 256)
        return self.head(inside), self.auxiliary(x)


def losses(made, model, step):
    """The loss that is printed, and the one whose gradients are exchanged."""
    if CASE == "lstm":
        tokens = (torch.randint(64, (16, 1), generator=made) + 7 * torch.arange(33)) % 64
        loss = cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        return loss, loss * 1e-7
    x = torch.randn(64, 64, generator=made)
    found, more = model(x)
    loss = cross_entropy(found, x[:, :10].argmax(1))
    aside = (more - x[:, :4]).pow(2).mean()
    weight = {"auxiliary": 1e-7, "healthy": 0.1, "overflow": 0.1}[CASE]
    scale = 1e7 if (CASE, step, RANK) == ("overflow", 9, 1) else 1.0
    return loss, (loss + weight * aside) * scale


torch.manual_seed(0)
model = DDP(Lstm() if CASE == "lstm" else TwoBranches())
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-20)
made = torch.Generator().manual_seed(RANK)
for step in range(STEPS):
    loss, sent = losses(made, model, step)
    optimizer.zero_grad()
    sent.backward()
    optimizer.step()
if RANK == 0:
    print(f"loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
