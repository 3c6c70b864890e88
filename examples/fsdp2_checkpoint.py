"""FSDP2 (fully_shard) with a sharded DCP checkpoint, on hosts that share no disk. Needs only torch.

    ipexctl install -f hosts
    ipexctl run -f hosts -ppn 2 --outputs checkpoint --merge examples/fsdp2_checkpoint.py

Each rank writes its shard on its own host. --merge collects the shards of all hosts in one folder,
.ipexctl/runs/RUN/outputs/checkpoint, which DCP can load. Send it to the hosts to resume:

    ipexctl data push -f hosts .ipexctl/runs/RUN/outputs/checkpoint
    ipexctl run -f hosts -ppn 2 --data checkpoint examples/fsdp2_checkpoint.py

or resume from it here: DCP reshards it for any number of ranks, also for one.

    ipexctl run -n 2 examples/fsdp2_checkpoint.py --resume $PWD/.ipexctl/runs/RUN/outputs/checkpoint
    python examples/fsdp2_checkpoint.py --resume .ipexctl/runs/RUN/outputs/checkpoint
"""

import argparse
import gc
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
WORDS, LENGTH, STEPS = 32, 16, 15


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--save", metavar="FOLDER", default="checkpoint")
    parser.add_argument(
        "--resume", metavar="FOLDER", default=os.environ.get("IPEXCTL_DATA_CHECKPOINT", "")
    )  # the variable is set by `ipexctl run --data checkpoint`
    args = parser.parse_args()

    os.environ.update({**ALONE, **os.environ})  # `python fsdp2_checkpoint.py` is one rank
    dist.init_process_group("gloo")
    before, after = run(args)
    print(f"world size {dist.get_world_size()}, loss {before:.4f} -> {after:.4f}", flush=True)
    gc.collect()  # frees the model of run(), which FSDP ties in a cycle, before the group goes
    dist.destroy_process_group()  # or gloo's threads can abort the process at exit
    if after >= before:
        raise SystemExit("the loss did not fall")


def run(args: argparse.Namespace) -> tuple[float, float]:
    """The loss before and after."""
    torch.manual_seed(0)  # the same model on every rank
    model = NextWord()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    epoch = load(args.resume, model, optimizer) if args.resume else 0
    before = evaluate(model)
    for epoch in range(epoch + 1, epoch + args.epochs + 1):  # noqa: B020  the last one is saved
        train(model, optimizer, epoch)
        after = evaluate(model)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {after:.4f}", flush=True)
    save(args.save, model, optimizer, epoch)
    return before, after


class NextWord(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 64)
        self.places = nn.Parameter(torch.randn(LENGTH, 64) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(64, WORDS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """The loss."""
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        x = self.words(text[:, :-1]) + self.places
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), text[:, 1:].flatten())


def texts(count: int, seed: int) -> torch.Tensor:
    """Each text counts up by its own step."""
    made = torch.Generator().manual_seed(seed)
    first = torch.randint(WORDS, (count, 1), generator=made)
    step = torch.randint(1, 5, (count, 1), generator=made)
    return (first + step * torch.arange(LENGTH + 1)) % WORDS


def train(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    seed = 1000 * epoch + dist.get_rank()  # each rank has its own texts, new ones in each epoch
    for batch in texts(STEPS * 16, seed).split(16):
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()


def evaluate(model: nn.Module) -> float:
    """On the same texts on every rank: fully_shard gathers the weights for each layer."""
    with torch.no_grad():
        return model(texts(64, seed=7)).item()


def save(folder: str, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "epoch": epoch}, checkpoint_id=folder)


def load(folder: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The epoch that was saved. Each rank reads what belongs to its own shard."""
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "epoch": 0}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    return state["epoch"]


if __name__ == "__main__":
    main()
