"""Replicated inference: every rank has the model and answers its share of the requests.

    ipexctl install -f hosts transformers
    ipexctl run -f hosts -ppn 1 --outputs answers.jsonl examples/replicated_inference.py
    python examples/replicated_inference.py             # one rank

Requests come in rounds, each as large as all ranks can take. Rank 0 writes the answers in the order
of the requests, after each round. Hosts of unequal speed get shares that fit (IPEXCTL_SHARE).
Without --model, a small Llama with random weights continues made prompts; its answers mean nothing.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}


def main() -> None:
    parser = argparse.ArgumentParser(description="Answers to many prompts, in their order.")
    parser.add_argument("--model", help="name or folder of a causal language model")
    parser.add_argument("--prompts", type=Path, help="a file with one prompt per line")
    parser.add_argument("--answers", type=Path, default=Path("answers.jsonl"))
    parser.add_argument("--batch", type=int, default=8, help="requests per rank and round")
    parser.add_argument("--tokens", type=int, default=32, help="new tokens of an answer")
    args = parser.parse_args()
    os.environ.update({**ALONE, **os.environ})
    dist.init_process_group("gloo")
    serve(args)
    dist.destroy_process_group()


def serve(args: argparse.Namespace) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    made = [f"request {i}: tell me about node {i % 7}" for i in range(256)]
    prompts = args.prompts.read_text("utf-8").splitlines() if args.prompts else made
    answer = replica(args.model, args.tokens)
    shares = [1 / world] * world
    dist.all_gather_object(shares, float(os.environ.get("IPEXCTL_SHARE", 1 / world)))
    seconds, began = [], time.monotonic()
    if rank == 0:
        args.answers.write_text("")
    for first in range(0, len(prompts), args.batch * world):
        requests = prompts[first : first + args.batch * world]
        since = time.monotonic()
        answers = answer(requests[own_part(len(requests), shares, rank)])
        parts = [None] * world if rank == 0 else None
        dist.gather_object(answers, parts)  # by rank, which is the order of the requests
        seconds.append(time.monotonic() - since)
        if rank == 0:
            answered = zip(requests, [one for part in parts for one in part], strict=True)
            with args.answers.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a in answered)
    if rank == 0:
        taken, seconds = time.monotonic() - began, sorted(seconds)
        half, most = seconds[len(seconds) // 2], seconds[-1]
        print(f"{len(prompts)} answers in order; a round took {half:.2f} s, {most:.2f} s at most")
        print(f"world size {world}: {len(prompts) / taken:.1f} requests/s", flush=True)


def own_part(count: int, shares: list[float], rank: int) -> slice:
    """The requests of this rank. Those of all ranks are the round, each request once."""
    start, end = (round(count * sum(shares[:i]) / sum(shares)) for i in (rank, rank + 1))
    return slice(start, end)


def replica(name: str | None, tokens: int):
    """A function from prompts to answers."""
    torch.manual_seed(0)  # the same random weights on every rank
    if name:
        tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).eval()
    else:
        config = LlamaConfig(
            vocab_size=256, hidden_size=192, intermediate_size=512, num_hidden_layers=4,
            num_attention_heads=4, pad_token_id=0, bos_token_id=1, eos_token_id=1,
        )  # fmt: skip
        tokenizer, model = None, LlamaForCausalLM(config).eval()

    def batch_of(prompts: list[str]):
        if tokenizer:
            return tokenizer(prompts, return_tensors="pt", padding=True)
        longest = max(len(prompt.encode()) for prompt in prompts)
        ids = torch.tensor([list(prompt.encode().rjust(longest, b"\0")) for prompt in prompts])
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}

    def answer(prompts: list[str]) -> list[str]:
        if not prompts:
            return []
        batch = batch_of(prompts)
        with torch.inference_mode():
            made = model.generate(**batch, max_new_tokens=tokens, do_sample=False)
        made = made[:, batch["input_ids"].shape[1] :]
        if tokenizer:
            return tokenizer.batch_decode(made, skip_special_tokens=True)
        return [bytes(row.tolist()).decode("latin-1") for row in made]

    return answer


if __name__ == "__main__":
    main()
