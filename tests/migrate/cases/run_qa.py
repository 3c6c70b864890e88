"""Question answering with the Trainer; all of its settings are arguments."""

import os
from dataclasses import dataclass, field

import torch


@dataclass
class ModelArguments:
    model_name_or_path: str = field(metadata={"help": "Folder of the model."})
    doc_stride: int = field(default=128)


def main():
    from transformers import HfArgumentParser, Trainer, TrainingArguments

    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    model = torch.load(os.path.join(model_args.model_name_or_path, "model.pt"))
    Trainer(model=model, args=training_args).train()


if __name__ == "__main__":
    main()
