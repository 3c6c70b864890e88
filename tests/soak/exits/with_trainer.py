"""The Trainer of transformers, and no destroy_process_group()."""

import os

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

config = BertConfig(
    vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
)
rows = [
    {"input_ids": torch.randint(64, (8,)), "labels": torch.tensor(number % 2)}
    for number in range(32)
]
trainer = Trainer(
    BertForSequenceClassification(config),
    TrainingArguments(
        f"out{os.environ['RANK']}",
        use_cpu=True,
        max_steps=3,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    ),
    train_dataset=rows,
)
trainer.train()
print("last line", flush=True)
