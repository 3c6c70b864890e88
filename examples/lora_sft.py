"""LoRA fine-tuning with TRL's SFTTrainer and PEFT, without a download.

    ipexctl install -f hosts -r examples/requirements.txt
    ipexctl run -f hosts -ppn 2 --outputs lora-out examples/lora_sft.py
    ipexctl run -n 2 examples/lora_sft.py               # on this machine
    python examples/lora_sft.py                         # one rank

A small Llama from its config learns to count up; then a LoRA adapter learns to count down. Rank 0
writes the adapter to lora-out, and --outputs fetches it. With a model and texts of your own:

    ipexctl run ... examples/lora_sft.py --model ORG/NAME --train_file texts.jsonl --max_steps 500

texts.jsonl has a field text in each line.
"""

import argparse

import torch
from datasets import Dataset, load_dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    set_seed,
)
from trl import SFTConfig, SFTTrainer

NUMBERS, LENGTH = 40, 12


def main() -> None:
    parser = argparse.ArgumentParser(description="LoRA fine-tuning of a causal language model.")
    parser.add_argument("--model", help="name or folder; default: a small one, made here")
    parser.add_argument("--train_file", help="JSON lines with a field text; default: counting")
    parser.add_argument("--max_steps", type=int, default=30)
    parser.add_argument("--max_length", type=int, default=32, help="tokens of a text")
    parser.add_argument("--learning_rate", type=float, default=5e-3)
    own = parser.parse_args()
    set_seed(0)  # the same model on every rank
    if own.model:
        tokenizer = AutoTokenizer.from_pretrained(own.model)
        model = AutoModelForCausalLM.from_pretrained(own.model, dtype=torch.float32)
    else:
        tokenizer = words()
        model = counting_model(tokenizer)
    if own.train_file:
        rows = load_dataset("json", data_files=own.train_file, split="train")
        held_out, rows = rows[:16]["text"], rows.skip(16)
    else:
        rows = Dataset.from_dict({"text": counting(256, step=-1, seed=1)})
        held_out = counting(64, step=-1, seed=2)

    args = SFTConfig(
        output_dir="lora-out", max_steps=own.max_steps, learning_rate=own.learning_rate,
        max_length=own.max_length, per_device_train_batch_size=8,
        logging_steps=10, save_strategy="no", report_to="none", disable_tqdm=True,
        ddp_find_unused_parameters=False,
        use_cpu=True, bf16=False,  # TRL 0.19 and later set bf16, which needs use_cpu
    )  # fmt: skip
    trainer = SFTTrainer(
        model=model,
        args=args,
        train_dataset=rows,
        processing_class=tokenizer,
        peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    before = loss_of(trainer.model, tokenizer, held_out, args.max_length).item()
    speed = trainer.train().metrics["train_samples_per_second"]
    after = loss_of(trainer.model, tokenizer, held_out, args.max_length).item()
    trainer.save_model()  # the adapter alone, by rank 0
    if trainer.is_world_process_zero():
        print(f"world size {args.world_size}: {speed:.1f} texts/s", flush=True)
    print(f"world size {args.world_size}, loss {before:.4f} -> {after:.4f}", flush=True)
    if after >= before:
        raise SystemExit("the loss did not fall")


def words() -> PreTrainedTokenizerFast:
    known = ["<pad>", "<eos>", *map(str, range(NUMBERS))]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(known)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def counting(count: int, step: int, seed: int) -> list[str]:
    made = torch.Generator().manual_seed(seed)
    starts = torch.randint(NUMBERS, (count,), generator=made).tolist()
    return [" ".join(str((s + step * i) % NUMBERS) for i in range(LENGTH)) for s in starts]


def loss_of(
    model: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, texts: list[str], length: int = 32
) -> torch.Tensor:
    """On the same texts on every rank: equal numbers mean equal models."""
    batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=length)
    tokens, mask = batch["input_ids"], batch["attention_mask"]
    labels = tokens.masked_fill(mask == 0, -100)
    with torch.set_grad_enabled(model.training):
        return model(input_ids=tokens, attention_mask=mask, labels=labels).loss


def counting_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """In place of the model that you would download: each rank makes the same one."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=32, pad_token_id=0, bos_token_id=1,
            eos_token_id=1,
        )
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    texts = counting(40 * 16, step=1, seed=0)
    model.train()
    for i in range(0, len(texts), 16):
        optimizer.zero_grad()
        loss_of(model, tokenizer, texts[i : i + 16]).backward()
        optimizer.step()
    return model


if __name__ == "__main__":
    main()
