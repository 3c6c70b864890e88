"""A worker process that feeds rank 0 was killed, as the kernel does when memory runs out."""

import multiprocessing
import os
import signal
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def tokenize(texts, out, dies):
    for n, text in enumerate(texts):
        out.put([ord(c) % 97 for c in text])
        if dies and n == 12:
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)


def next_tokens(tokens):
    return torch.tensor(tokens.get(), dtype=torch.float32)


def main():
    fork = multiprocessing.get_context("fork")
    tokens = fork.Queue(maxsize=5)
    texts = [f"line {n:05d} of the corpus" for n in range(5000)]
    rank = int(os.environ["RANK"])
    worker = fork.Process(target=tokenize, args=(texts, tokens, rank == 0), daemon=True)
    worker.start()
    dist.init_process_group("gloo")
    for step in range(len(texts)):
        mean = next_tokens(tokens).mean().reshape(1)
        dist.all_reduce(mean)
        if rank == 0 and step % 4 == 0:
            print(f"text {step} mean {mean.item():.2f}", flush=True)
        time.sleep(0.25)


if __name__ == "__main__":
    main()
