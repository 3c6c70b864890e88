"""A GPT of 4.2 million parameters on text that it makes itself, trained with DDP over gloo."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, LENGTH, WIDTH, LAYERS = 2048, 32, 256, 4


class SmallGpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        block = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, LAYERS, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        count = tokens.shape[1]
        x = self.words(tokens) + self.places(torch.arange(count))
        mask = nn.Transformer.generate_square_subsequent_mask(count)
        return self.out(self.blocks(x, mask=mask, is_causal=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=4, help="of each rank")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)  # the same model on every rank
    model = DistributedDataParallel(SmallGpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    made = torch.Generator().manual_seed(1000 * args.seed + rank)
    for _ in range(args.steps):
        first = torch.randint(VOCABULARY, (args.batch, 1), generator=made)
        tokens = (first + 7 * torch.arange(LENGTH + 1)) % VOCABULARY  # the next word is 7 further
        given, wanted = tokens[:, :-1], tokens[:, 1:]
        loss = cross_entropy(model(given).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mean = loss.detach() / dist.get_world_size()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"loss {mean.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
