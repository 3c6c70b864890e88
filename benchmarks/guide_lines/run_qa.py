"""The command line of the guide's run_qa.py, with a small model that it makes itself."""

from dataclasses import dataclass

import torch
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)


@dataclass
class ModelArguments:
    model_name_or_path: str


@dataclass
class DataArguments:
    dataset_name: str
    max_seq_length: int = 32
    doc_stride: int = 8


def main() -> None:
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    _, _, args = parser.parse_args_into_dataclasses()
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    torch.manual_seed(0)
    data = [item(i) for i in range(96)]
    args.report_to = []
    trainer = Trainer(BertForQuestionAnswering(config), args, train_dataset=data)
    trainer.train()
    print("world size", args.world_size, flush=True)


def item(number: int) -> dict[str, torch.Tensor]:
    words = torch.randint(1, 64, (24,), generator=torch.Generator().manual_seed(number))
    place = torch.tensor(number % 20)
    words[place] = 0
    return {"input_ids": words, "start_positions": place, "end_positions": place}


main()
