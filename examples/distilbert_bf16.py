"""DistilBERT fine-tuning in bf16 with the Trainer: reviews, good or bad.

    ipexctl install -f hosts -r examples/requirements.txt
    ipexctl run -f hosts -ppn 1 --outputs distilbert-out examples/distilbert_bf16.py
    python examples/distilbert_bf16.py --use_cpu        # one rank

Without --model, a small DistilBERT with random weights learns made reviews, and nothing is
downloaded. With a model and data of your own:

    ipexctl run ... examples/distilbert_bf16.py --model distilbert/distilbert-base-uncased \\
        --train_file reviews.csv --learning_rate 5e-5

reviews.csv has the columns text and label (0, 1, ...). It takes the options of TrainingArguments.
"""

from dataclasses import dataclass, field

import torch
from datasets import Dataset, load_dataset
from text_classification import reviews, trained_on  # beside this file
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    DistilBertConfig,
    HfArgumentParser,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)


@dataclass
class Own:
    model: str = field(default="", metadata={"help": "name or folder; default: random weights"})
    train_file: str = field(default="", metadata={"help": "CSV with the columns text and label"})


def main() -> None:
    parser = HfArgumentParser([Own, TrainingArguments])
    parser.set_defaults(
        output_dir="distilbert-out", bf16=True, use_cpu=True, num_train_epochs=4,
        per_device_train_batch_size=8, learning_rate=1e-3, logging_steps=10, save_strategy="no",
        report_to="none", disable_tqdm=True, ddp_find_unused_parameters=False,
        average_tokens_across_devices=False,  # or its mean loss is multiplied by the ranks
    )  # fmt: skip
    own, args = parser.parse_args_into_dataclasses()
    set_seed(args.seed)  # the same model on every rank
    rows, tokenizer, model = start(own)
    rows = rows.map(lambda r: tokenizer(r["text"], truncation=True, max_length=256), batched=True)
    rows = rows.remove_columns("text").train_test_split(test_size=1 / 8, seed=0)
    trainer = Trainer(
        model=model, args=args, train_dataset=rows["train"], processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
    )  # fmt: skip
    before, _ = score(model, tokenizer, rows["test"])
    speed = trainer.train().metrics["train_samples_per_second"]
    after, right = score(model, tokenizer, rows["test"])
    trainer.save_model()  # by rank 0
    if trainer.is_world_process_zero():
        print(f"world size {args.world_size}: {speed:.1f} reviews/s, {right:.0%} right", flush=True)
    print(f"world size {args.world_size}, loss {before:.4f} -> {after:.4f}", flush=True)
    if after >= before:
        raise SystemExit("the loss did not fall")


def start(own: Own) -> tuple[Dataset, PreTrainedTokenizerBase, torch.nn.Module]:
    if own.train_file:
        rows = load_dataset("csv", data_files=own.train_file, split="train")
    else:
        texts, labels = reviews(640)
        rows = Dataset.from_dict({"text": texts, "label": labels})
    labels = len(set(rows["label"]))
    if own.model:
        model = AutoModelForSequenceClassification.from_pretrained(own.model, num_labels=labels)
        return rows, AutoTokenizer.from_pretrained(own.model), model
    tokenizer = trained_on(rows["text"])
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=128, hidden_dim=512, n_layers=2, n_heads=4, num_labels=labels
    )
    return rows, tokenizer, AutoModelForSequenceClassification.from_config(config)


def score(
    model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, rows: Dataset
) -> tuple[float, float]:
    """Loss and accuracy on the same reviews on every rank: equal numbers mean equal models."""
    model.eval()
    losses, right = [], []
    for batch in rows.batch(32):
        labels = torch.tensor(batch.pop("label"))
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            logits = model(**tokenizer.pad(batch, return_tensors="pt")).logits.float()
        losses.append(torch.nn.functional.cross_entropy(logits, labels, reduction="none"))
        right.append(logits.argmax(-1) == labels)
    return torch.cat(losses).mean().item(), torch.cat(right).float().mean().item()


if __name__ == "__main__":
    main()
