"""TRL's SFTTrainer with a LoRA adapter of PEFT, on a small random model without a hub."""

import torch
from datasets import Dataset
from peft import LoraConfig
from report import report
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

words = {w: i for i, w in enumerate(["<pad>", "<eos>", *(f"w{n}" for n in range(200))])}
plain = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<pad>"
)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_embd=32, n_layer=2, n_head=2))
texts = [" ".join(f"w{(i * k) % 200}" for k in range(20)) for i in range(128)]
arguments = SFTConfig(
    output_dir="out", max_steps=6, logging_steps=1, per_device_train_batch_size=4, use_cpu=True,
    bf16=False, save_strategy="no", report_to="none", max_length=32,
)  # fmt: skip
trainer = SFTTrainer(
    model=model,
    args=arguments,
    train_dataset=Dataset.from_dict({"text": texts}),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM"),
)
trainer.train()
tuned = (p for name, p in sorted(trainer.model.named_parameters()) if p.requires_grad)
report(trainer.args.world_size, tuned)
