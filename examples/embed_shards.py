"""Embeddings of many texts. Ranks take shards one by one: no collectives, nobody waits.

    ipexctl install -f hosts numpy transformers
    ipexctl run -f hosts -ppn 1 --outputs out --merge examples/embed_shards.py
    python examples/embed_shards.py --merge .ipexctl/runs/RUN/outputs/out    # -> embeddings.npy

Rank 0 counts the shards that are taken. At the end, ranks without work compute what another rank
has taken and not finished, so a slow host delays no one. Finished shards stay in --keep on their
host: an attempt after a lost host, or the same command later, computes only those that are missing.
"""

import argparse
import hashlib
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ENV = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
ENV.update(os.environ)
RANK, WORLD = int(ENV["RANK"]), int(ENV["WORLD_SIZE"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Embeddings of many texts, shard by shard.")
    parser.add_argument("--model", help="name or folder for transformers; default: random weights")
    parser.add_argument("--texts", type=Path, help="a file with one text per line")
    parser.add_argument("--shard", type=int, default=32, help="texts in a shard")
    parser.add_argument("--batch", type=int, default=16, help="texts in a batch")
    parser.add_argument("--keep", type=Path, default=Path.home() / ".cache/embed_shards")
    parser.add_argument("--slow-rank", type=int, default=-1, help="this rank is 10 times slower")
    parser.add_argument("--merge", type=Path, metavar="FOLDER", help="join the shards in FOLDER")
    args = parser.parse_args()
    if args.merge:
        merge(args.merge)
    else:
        work(args)


def work(args: argparse.Namespace) -> None:
    import numpy as np
    from torch.distributed import TCPStore

    texts = args.texts.read_text("utf-8").splitlines() if args.texts else made_texts(2048)
    count = -(-len(texts) // args.shard)
    what = hashlib.sha256("\n".join([f"{args.model} {args.shard}", *texts]).encode()).hexdigest()
    port = int(ENV["MASTER_PORT"])
    store = TCPStore(ENV["MASTER_ADDR"], port, is_master=RANK == 0, wait_for_workers=False)
    shards = Shards(store, count, args.keep / what[:16])
    embed = embedder(args.model)  # takes a while: by then every rank has told what it keeps
    began = time.monotonic()
    for shard in shards:
        rows, vectors = texts[shard * args.shard : (shard + 1) * args.shard], []
        for start in range(0, len(rows), args.batch):
            if shards.done(shard):  # by another rank
                break
            since = time.monotonic()
            vectors.append(embed(rows[start : start + args.batch]))
            time.sleep(9 * (time.monotonic() - since) if RANK == args.slow_rank else 0)
        else:
            shards.finish(shard, lambda file, v=vectors: np.save(file, np.concatenate(v)))
    print(f"rank {RANK}: {shards.kept} shards kept, {shards.finished} computed", flush=True)
    store.add("left", 1)
    while RANK == 0 and store.add("left", 0) < WORLD:  # the store ends with rank 0
        time.sleep(0.05)
    if RANK == 0:
        rate = min(store.add("computed", 0) * args.shard, len(texts)) / (time.monotonic() - began)
        print(f"{WORLD} ranks: {rate:.1f} texts/s", flush=True)


class Shards:
    """The shards that this rank has to compute; `store` counts for all ranks what is done."""

    def __init__(self, store, count: int, keep: Path, out: Path = Path("out")) -> None:
        self.store, self.count, self.keep, self.out = store, count, keep, out
        self.kept = self.finished = 0
        keep.mkdir(parents=True, exist_ok=True)
        out.mkdir(exist_ok=True)
        for path in sorted(keep.glob("*.npy")):
            self.kept += self.claim(int(path.name[:6]))

    def __iter__(self) -> Iterator[int]:
        while (shard := self.store.add("next", 1) - 1) < self.count:
            if not self.done(shard):
                yield shard
        for shard in random.sample(range(self.count), self.count):  # what others have not finished
            if not self.done(shard):
                yield shard

    def done(self, shard: int) -> bool:
        return self.store.check([f"done {shard}"])

    def finish(self, shard: int, save) -> None:
        """On the disk first, under its name only when all of it is there, then announced."""
        path = self.path(shard)
        part = path.with_suffix(f".part{RANK}")
        with part.open("wb") as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        if self.claim(shard):
            self.finished += 1
            self.store.add("computed", 1)

    def claim(self, shard: int) -> bool:
        """One rank is the first to have the shard: its file is a part of the result."""
        first = self.store.add(f"done {shard}", 1) == 1
        if first:
            link = self.out / self.path(shard).name
            link.unlink(missing_ok=True)  # of an earlier attempt
            try:
                os.link(self.path(shard), link)
            except OSError:  # on another disk
                shutil.copyfile(self.path(shard), link)
        return first

    def path(self, shard: int) -> Path:
        return self.keep / f"{shard:06}-of-{self.count:06}.npy"


def embedder(name: str | None):
    """A function from texts to an array with a row for each: the mean of the last layer."""
    import torch

    torch.manual_seed(0)  # the same random weights on every rank
    if name:
        from transformers import AutoModel, AutoTokenizer

        tokenizer, model = AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name)
    else:
        layer = torch.nn.TransformerEncoderLayer(192, 4, 768, batch_first=True)
        encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        table = torch.nn.Embedding(256, 192)

    def embed(texts: list[str]):
        with torch.inference_mode():
            if name:
                batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
                mask, states = batch["attention_mask"], model.eval()(**batch).last_hidden_state
            else:
                rows = [torch.tensor(list(text.encode()[:256] or b" ")) for text in texts]
                ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
                mask, states = ids > 0, encoder(table(ids), src_key_padding_mask=ids == 0)
            return ((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).numpy()

    return embed


def made_texts(count: int) -> list[str]:
    made = random.Random(0)
    words = ["node", "rank", "core", "fast", "slow", "red", "blue", "sea", "hill", "rain", "sun"]
    return [" ".join(made.choices(words, k=made.randint(20, 40))) for _ in range(count)]


def in_order(folder: Path) -> list[Path]:
    """Every shard once; what a host lost earlier brought again is in @HOST and left out."""
    paths = sorted(folder.glob("*-of-*.npy"))
    count = int(paths[0].stem[-6:]) if paths else 0
    missing = sorted(set(range(count)) - {int(path.name[:6]) for path in paths})
    if missing or len(paths) != count or not paths:
        sys.exit(f"{folder}: shards {missing} of {count} are missing: start the run again")
    return paths


def merge(folder: Path) -> None:
    import numpy as np

    paths = in_order(folder)
    rows = np.concatenate([np.load(path) for path in paths])
    np.save("embeddings.npy", rows)
    print(f"embeddings.npy: {len(rows)} rows of {rows.shape[1]}, from {len(paths)} shards")


if __name__ == "__main__":
    main()
