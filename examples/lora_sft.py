"""LoRA fine-tuning with TRL's SFTTrainer and PEFT, without a download.

    ipexctl install -f hosts -r examples/requirements.txt
    ipexctl run -f hosts -ppn 2 --outputs lora-out examples/lora_sft.py
    ipexctl run -n 2 examples/lora_sft.py               # on this machine
    python examples/lora_sft.py                         # one rank

A small Llama from its config learns to count up; then a LoRA adapter learns to count down. Rank 0
writes the adapter to lora-out, and --outputs fetches it.
"""

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    set_seed,
)
from trl import SFTConfig, SFTTrainer

NUMBERS, LENGTH = 40, 12


def main() -> None:
    set_seed(0)  # the same model on every rank
    tokenizer = words()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=32, pad_token_id=0, bos_token_id=1,
            eos_token_id=1,
        )
    )  # fmt: skip
    learn_to_count_up(model, tokenizer)

    args = SFTConfig(
        output_dir="lora-out", max_steps=30, learning_rate=5e-3, per_device_train_batch_size=8,
        max_length=32, logging_steps=10, save_strategy="no", report_to="none", disable_tqdm=True,
        ddp_find_unused_parameters=False,
        use_cpu=True, bf16=False,  # TRL 0.19 and later set bf16, which needs use_cpu
    )  # fmt: skip
    trainer = SFTTrainer(
        model=model,
        args=args,
        train_dataset=Dataset.from_dict({"text": counting(256, step=-1, seed=1)}),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    down = counting(64, step=-1, seed=2)
    before = loss_of(trainer.model, tokenizer, down).item()
    trainer.train()
    after = loss_of(trainer.model, tokenizer, down).item()
    trainer.save_model()  # the adapter alone, by rank 0
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
    model: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, texts: list[str]
) -> torch.Tensor:
    """On the same texts on every rank: equal numbers mean equal models."""
    tokens = tokenizer(texts, return_tensors="pt")["input_ids"]
    with torch.set_grad_enabled(model.training):
        return model(input_ids=tokens, labels=tokens).loss


def learn_to_count_up(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """In place of the model that you would download: each rank makes the same one."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    texts = counting(40 * 16, step=1, seed=0)
    model.train()
    for i in range(0, len(texts), 16):
        optimizer.zero_grad()
        loss_of(model, tokenizer, texts[i : i + 16]).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
