"""Text classification with Accelerate: what its nlp_example.py does, without a download.

    ipexctl install -f hosts -r examples/requirements.txt
    ipexctl run -f hosts -ppn 2 examples/text_classification.py --mixed_precision bf16
    ipexctl run -n 2 examples/text_classification.py    # on this machine
    python examples/text_classification.py --cpu        # one rank

The script makes its reviews, trains a tokenizer on them, and makes a small BERT from a config.
"""

import argparse
import random

import torch
from accelerate import Accelerator
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    get_linear_schedule_with_warmup,
    set_seed,
)

SPECIAL = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", choices=["no", "bf16"], default="no")
    parser.add_argument("--cpu", action="store_true", help="not needed with ipexctl run")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=8, help="of each rank")
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    accelerator = Accelerator(cpu=args.cpu, mixed_precision=args.mixed_precision)
    # DDP ends before its process group, without which torch 2.13 can hang
    before, after = train(accelerator, args)
    accelerator.free_memory()
    print(f"world size {accelerator.num_processes}, loss {before:.4f} -> {after:.4f}", flush=True)
    accelerator.end_training()
    if after >= before:
        raise SystemExit("the loss did not fall")


def train(accelerator: Accelerator, args: argparse.Namespace) -> tuple[float, float]:
    """The loss before and after."""
    set_seed(42)  # the same model on every rank
    loader, eval_loader, tokenizer = data(args.batch_size)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=128, max_position_embeddings=64, num_labels=2,
        )
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = get_linear_schedule_with_warmup(optimizer, 10, len(loader) * args.epochs)
    model, optimizer, loader, eval_loader, schedule = accelerator.prepare(
        model, optimizer, loader, eval_loader, schedule
    )

    before, _ = evaluate(accelerator, model, eval_loader)
    for epoch in range(1, args.epochs + 1):
        model.train()
        for batch in loader:
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        after, right = evaluate(accelerator, model, eval_loader)
        accelerator.print(f"epoch {epoch} loss {after:.4f}, {right:.0%} right", flush=True)
    return before, after


def evaluate(
    accelerator: Accelerator, model: torch.nn.Module, loader: DataLoader
) -> tuple[float, float]:
    """Loss and accuracy over all ranks."""
    model.eval()
    losses, right = [], []
    for batch in loader:
        with torch.no_grad():
            found = model(**batch)
        loss = torch.nn.functional.cross_entropy(
            found.logits.float(), batch["labels"], reduction="none"
        )
        both = accelerator.gather_for_metrics((loss, found.logits.argmax(-1) == batch["labels"]))
        losses.append(both[0])
        right.append(both[1])
    return torch.cat(losses).mean().item(), torch.cat(right).float().mean().item()


def data(batch_size: int) -> tuple[DataLoader, DataLoader, PreTrainedTokenizerFast]:
    texts, labels = reviews(560)
    tokenizer = trained_on(texts)

    def tokenize(rows: dict) -> dict:
        return tokenizer(rows["text"], truncation=True, max_length=64)

    rows = Dataset.from_dict({"text": texts, "labels": labels})
    rows = rows.map(tokenize, batched=True, remove_columns=["text"])
    parts = rows.train_test_split(test_size=80, seed=0)

    def collate(batch: list) -> dict:
        return tokenizer.pad(batch, padding="longest", return_tensors="pt")

    return (
        DataLoader(parts["train"], batch_size, shuffle=True, collate_fn=collate, drop_last=True),
        DataLoader(parts["test"], 32, collate_fn=collate),
        tokenizer,
    )


def reviews(count: int) -> tuple[list[str], list[int]]:
    """Half of them praise, half of them complain."""
    made = random.Random(0)
    things = ["food", "film", "room", "service", "book", "music", "view", "staff"]
    words = (["awful", "dull", "rude", "late"], ["great", "lovely", "kind", "fun"])
    texts, labels = [], []
    for i in range(count):
        label = i % 2
        first, second = made.sample(things, 2)
        what = f"the {first} was {made.choice(words[label])}"
        more = f"we came for the {second} on day {made.randint(1, 30)}"
        texts.append(f"{more} and {what}" if made.random() < 0.5 else f"{what} , {more}")
        labels.append(label)
    return texts, labels


def trained_on(texts: list[str]) -> PreTrainedTokenizerFast:
    """WordLevel is the same on every rank; WordPiece breaks ties between pairs in any order."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=list(SPECIAL.values()))
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


if __name__ == "__main__":
    main()
