import transformers as hf
from packaging.version import Version


class Ours(hf.TrainingArguments):
    extra: int = 0


both = Ours("out", no_cuda=True, use_cpu=True, ddp_backend='ccl')
if Version(hf.__version__) < Version("5"):
    old = hf.TrainingArguments("out", no_cuda=True)
others = dict(no_cuda=True)  # nothing says that these are for the Trainer
