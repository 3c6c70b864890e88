"""BERT inference on CPUs in float32, bf16 and int8: how far the outputs differ, and their times.

    ipexctl install -f hosts -r examples/requirements-int8.txt
    ipexctl run -f hosts -ppn 2 examples/bert_int8.py
    ipexctl run -n 2 examples/bert_int8.py              # on this machine
    python examples/bert_int8.py                        # one rank

A BERT from a config learns a small task on all ranks; then each rank classifies its own texts.
int8 is dynamic: weights are quantized once, activations at each call. torchao's quantize_() is the
current way. torch.ao.quantization.quantize_dynamic() is deprecated but still works in torch 2.13;
without --compile it is the faster one.
"""

import argparse
import contextlib
import copy
import os
import time
import warnings

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before init_process_group(): see train_ddp.py
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_
from transformers import BertConfig, BertForSequenceClassification

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
WORDS, LENGTH = 100, 32


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=64, help="of each rank")
    parser.add_argument("--compile", action="store_true", help="needs a C++ compiler on the hosts")
    args = parser.parse_args()
    os.environ.update({**ALONE, **os.environ})  # `python bert_int8.py` is one rank
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # the same model on every rank
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS, hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=512, max_position_embeddings=LENGTH, num_labels=2,
        )
    )  # fmt: skip
    before, after = train(model)
    worst = compare(model.eval(), args)
    print(f"world size {dist.get_world_size()}, loss {before:.4f} -> {after:.4f}", flush=True)
    dist.destroy_process_group()
    if after >= before:
        raise SystemExit("the loss did not fall")
    if worst < 0.95:
        raise SystemExit(f"only {worst:.0%} of the answers are those of float32")


def compare(model: nn.Module, args: argparse.Namespace) -> float:
    """The lowest share of answers that are those of float32, over all ranks."""
    texts, _ = data(args.texts, seed=1_000_000 + dist.get_rank())
    outputs: dict[str, torch.Tensor] = {}
    worst = 1.0
    for name, variant, context in variants(model):
        run = torch.compile(variant) if args.compile else variant
        with torch.inference_mode(), context:
            run(texts[:8])  # warm up
            started = time.monotonic()
            outputs[name] = torch.cat([run(part).logits.float() for part in texts.split(8)])
            seconds = time.monotonic() - started
        expected = outputs["float32"]
        right = (outputs[name].argmax(-1) == expected.argmax(-1)).sum()
        found = torch.stack([right.float(), torch.tensor(seconds)])
        dist.all_reduce(found)
        share = found[0].item() / args.texts / dist.get_world_size()
        worst = min(worst, share)
        if dist.get_rank() == 0:
            most = (outputs[name] - expected).abs().max().item()
            rate = args.texts * dist.get_world_size() / found[1].item()
            print(
                f"{name:13} {rate:6.0f} texts/s per rank, logits differ by {most:.4f} at most, "
                f"{share:.0%} of the answers are equal",
                flush=True,
            )
    return worst


def variants(model: nn.Module) -> list[tuple[str, nn.Module, contextlib.AbstractContextManager]]:
    int8 = copy.deepcopy(model)
    quantize_(int8, Int8DynamicActivationInt8WeightConfig())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        older = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear})
    plain = contextlib.nullcontext()
    return [
        ("float32", model, plain),
        ("bf16", model, torch.autocast("cpu", dtype=torch.bfloat16)),
        ("int8 torchao", int8, plain),
        ("int8 torch.ao", older, plain),
    ]


def train(model: nn.Module) -> tuple[float, float]:
    """The first loss and the last one, on the same texts on every rank."""
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before = evaluate(model)
    model.train()
    for step in range(20):
        texts, labels = data(16, seed=1000 * step + dist.get_rank())
        optimizer.zero_grad()
        nn.functional.cross_entropy(parallel(texts).logits, labels).backward()
        optimizer.step()
    return before, evaluate(model)


def evaluate(model: nn.Module) -> float:
    model.eval()
    texts, labels = data(64, seed=999_999)
    with torch.no_grad():
        return nn.functional.cross_entropy(model(texts).logits, labels).item()


def data(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens; the third one says the class."""
    made = torch.Generator().manual_seed(seed)
    texts = torch.randint(10, WORDS, (count, LENGTH), generator=made)
    labels = torch.randint(2, (count,), generator=made)
    texts[:, 3] = 5 + labels
    return texts, labels


if __name__ == "__main__":
    main()
