from transformers import Trainer, TrainingArguments

from data import load


def arguments(epochs):
    return TrainingArguments(
        output_dir="out",
        num_train_epochs=epochs,
        no_cuda=True,
        use_ipex=True,  # needs IPEX
        bf16=True,
        ddp_backend="ccl",
        jit_mode_eval=False,
    )


def short(): return TrainingArguments("out", use_ipex = True, no_cuda = not torch.cuda.is_available())


Trainer(load("model"), arguments(3), train_dataset=load("train")).train()
