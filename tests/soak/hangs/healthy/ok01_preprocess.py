"""Rank 0 prepares the corpus in pure Python for a minute; the others wait in a barrier."""

import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def clean(text):
    return "".join(c for c in text.lower() if c.isalnum() or c == " ")


def count(words, seen):
    for word in words:
        seen[word] = seen.get(word, 0) + 1


def pairs(words):
    return {(a, b) for a in words for b in words if a < b}


def merge(found, new):
    return set(list(found | new)[:5000])


def preprocess(seconds):
    seen, found, n = {}, set(), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        n += 1
        words = clean(f"Document {n}: the quick brown fox {n % 91}, jumps over {n % 17}!").split()
        count(words, seen)
        found = merge(found, pairs(words))
    return len(seen), len(found)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(12):
        dist.all_reduce(torch.ones(1))
        if rank == 0 and step % 6 == 0:
            print("hello", step, flush=True)
        time.sleep(0.25)
    if rank == 0:
        print("preprocessing", flush=True)
        words, found = preprocess(68)
        print(f"{words} words, {found} pairs", flush=True)
    dist.barrier()
    for step in range(12):
        loss = torch.rand(1)
        dist.all_reduce(loss)
        if rank == 0:
            print(f"step {step} loss {loss.item() / 4:.3f}", flush=True)
        time.sleep(0.5)
    dist.destroy_process_group()


main()
