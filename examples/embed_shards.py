"""Embeddings of many texts, without collectives: ranks take shards one by one, and none waits.

    ipexctl install -f hosts numpy transformers
    ipexctl run -f hosts -ppn 1 --outputs out --merge examples/embed_shards.py
    python examples/embed_shards.py --merge .ipexctl/runs/RUN/outputs/out    # -> embeddings.npy

Rank 0 counts the shards that are taken. At the end, ranks without work compute what another rank
has taken and not finished, so a slow host delays no one. Finished shards stay in --keep on their
host: an attempt after a lost host, or the same command later, computes only those that are missing.
"""

import argparse
import hashlib
import random
import time
from pathlib import Path

from shard_queue import RANK, WORLD, Shards, in_order, store_of_all_ranks  # beside this file


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

    texts = args.texts.read_text("utf-8").splitlines() if args.texts else made_texts(2048)
    count = -(-len(texts) // args.shard)
    what = hashlib.sha256("\n".join([f"{args.model} {args.shard}", *texts]).encode()).hexdigest()
    store = store_of_all_ranks()
    shards = Shards(store, count, args.keep / what[:16])
    embed = embedder(args.model)  # takes a while: by then every rank has announced what it keeps
    began = time.monotonic()
    for shard in shards:
        rows, vectors = texts[shard * args.shard : (shard + 1) * args.shard], []
        for start in range(0, len(rows), args.batch):
            if shards.done(shard):  # by another rank
                break
            since = time.monotonic()
            vectors.append(embed(rows[start : start + args.batch]))
            time.sleep(9 * (time.monotonic() - since) if args.slow_rank == RANK else 0)
        else:
            shards.finish(shard, lambda file, v=vectors: np.save(file, np.concatenate(v)))
    print(f"rank {RANK}: {shards.kept} shards kept, {shards.finished} computed", flush=True)
    shards.leave()
    if RANK == 0:
        computed = min(store.add("computed", 0) * args.shard, len(texts))
        rate = computed / (time.monotonic() - began)
        print(f"world size {WORLD}: {rate:.1f} texts/s", flush=True)


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


def merge(folder: Path) -> None:
    import numpy as np

    paths = in_order(folder)
    rows = np.concatenate([np.load(path) for path in paths])
    np.save("embeddings.npy", rows)
    print(f"embeddings.npy: {len(rows)} rows of {rows.shape[1]}, from {len(paths)} shards")


if __name__ == "__main__":
    main()
