"""Question answering with the Trainer: what its run_qa.py does, without a download.

    ipexctl install -f hosts -r examples/requirements.txt
    ipexctl run -f hosts -ppn 2 examples/question_answering.py
    ipexctl run -n 2 examples/question_answering.py     # on this machine
    python examples/question_answering.py               # one rank

It takes the options of TrainingArguments, for example `--use_cpu --bf16 --num_train_epochs 2`. The
script makes its questions, trains a tokenizer on them, and makes a small BERT from a config.
"""

import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    EvalPrediction,
    HfArgumentParser,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

SPECIAL = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
LENGTH = 32


def main() -> None:
    parser = HfArgumentParser(TrainingArguments)
    parser.set_defaults(
        output_dir="qa-out", num_train_epochs=3, per_device_train_batch_size=8, learning_rate=2e-3,
        logging_steps=10, save_strategy="no", report_to="none", disable_tqdm=True,
        ddp_find_unused_parameters=False,
    )  # fmt: skip
    (args,) = parser.parse_args_into_dataclasses()
    set_seed(args.seed)  # the same model on every rank
    rows = questions(680)
    tokenizer = trained_on(rows)
    rows = rows.map(features, batched=True, fn_kwargs={"tokenizer": tokenizer})
    rows = rows.remove_columns(["question", "context", "answer", "answer_start"])
    parts = rows.train_test_split(test_size=80, seed=0)
    model = BertForQuestionAnswering(
        BertConfig(
            vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=128, max_position_embeddings=LENGTH,
            initializer_range=0.15, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip
    trainer = Trainer(
        model=model, args=args, train_dataset=parts["train"], eval_dataset=parts["test"],
        processing_class=tokenizer, data_collator=default_data_collator,
        compute_metrics=exact_match,
    )  # fmt: skip
    before = loss_of(model, parts["test"])  # trainer.evaluate() here would keep DDP from train()
    trainer.train()
    after = loss_of(model, parts["test"])
    found = trainer.evaluate()
    if trainer.is_world_process_zero():
        print(f"exact match {found['eval_exact_match']:.0%}", flush=True)
    print(f"world size {args.world_size}, loss {before:.4f} -> {after:.4f}", flush=True)
    if after >= before:
        raise SystemExit("the loss did not fall")


def loss_of(model: BertForQuestionAnswering, rows: Dataset) -> float:
    """On the same questions on every rank: equal numbers mean equal models."""
    model.eval()
    with torch.no_grad():
        return model(**rows.with_format("torch")[:]).loss.item()


def questions(count: int) -> Dataset:
    """As in SQuAD: a question, a context, and where in it the answer begins."""
    made = random.Random(0)
    names = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo"]
    facts = {
        "Where does {} live?": ("lives in", ["Oslo", "Lima", "Cairo", "Perth", "Quito"]),
        "What does {} drink?": ("drinks", ["tea", "coffee", "milk", "cocoa", "juice"]),
        "What does {} play?": ("plays", ["chess", "tennis", "cards", "golf", "drums"]),
    }
    rows = []
    for _ in range(count):
        name = made.choice(names)
        told = {ask: made.choice(answers) for ask, (_, answers) in facts.items()}
        order = made.sample(list(facts), len(facts))
        context = " ".join(f"{name} {facts[ask][0]} {told[ask]} ." for ask in order)
        asked = made.choice(order)
        start = context.index(f"{facts[asked][0]} {told[asked]}") + len(facts[asked][0]) + 1
        rows.append((asked.format(name), context, told[asked], start))
    columns = ("question", "context", "answer", "answer_start")
    return Dataset.from_dict(dict(zip(columns, zip(*rows, strict=True), strict=True)))


def features(rows: dict, tokenizer: PreTrainedTokenizerFast) -> dict:
    """Tokens, and the first and last token of each answer."""
    made = tokenizer(
        rows["question"], rows["context"], truncation="only_second", max_length=LENGTH,
        padding="max_length", return_token_type_ids=True,
    )  # fmt: skip
    made["start_positions"], made["end_positions"] = [], []
    for i, (answer, start) in enumerate(zip(rows["answer"], rows["answer_start"], strict=True)):
        last = start + len(answer) - 1
        made["start_positions"].append(made.char_to_token(i, start, sequence_index=1))
        made["end_positions"].append(made.char_to_token(i, last, sequence_index=1))
    return made


def exact_match(found: EvalPrediction) -> dict:
    both = [
        torch.as_tensor(logits).argmax(-1) == torch.as_tensor(places)
        for logits, places in zip(found.predictions, found.label_ids, strict=True)
    ]
    return {"exact_match": (both[0] & both[1]).float().mean().item()}


def trained_on(rows: Dataset) -> PreTrainedTokenizerFast:
    """WordLevel is the same on every rank; WordPiece breaks ties between pairs in any order."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordLevelTrainer(special_tokens=list(SPECIAL.values()))
    tokenizer.train_from_iterator([*rows["question"], *rows["context"]], trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


if __name__ == "__main__":
    main()
