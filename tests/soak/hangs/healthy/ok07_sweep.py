"""Each rank tries its own settings; they do not talk to each other, and print at the end."""

import os
import time

import numpy as np

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def fit(rate, seconds):
    rng = np.random.default_rng(rank)
    x = rng.normal(size=(200, 10))
    y = x @ np.arange(10.0) + rng.normal(size=200)
    w = np.zeros(10)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rows = rng.integers(0, 200, size=20)
        w -= rate * x[rows].T @ (x[rows] @ w - y[rows]) / 20
    return float(np.square(x @ w - y).mean())


print(f"rank {rank} of {world}: learning rate {0.01 * (rank + 1)}", flush=True)
error = fit(0.01 * (rank + 1), 78)
print(f"rank {rank}: error {error:.4f}", flush=True)
