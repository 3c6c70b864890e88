"""A fine-tuning script as transformers' examples have them: HfArgumentParser and Trainer."""

import torch
from report import report
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        words = torch.randint(0, 500, (32,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": words, "labels": int(words[0] > 250)}


def main():
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    config = BertConfig(
        vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    Trainer(model=model, args=args, train_dataset=Sentences()).train()
    report(args.world_size, model.parameters())


if __name__ == "__main__":
    main()
