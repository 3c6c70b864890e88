"""Find the file, folder or module that a script lacked, from its last words."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from ipexctl.base.located_errors import is_one_slip
from ipexctl.quick_dataclass import dataclass

_MISSING = re.compile(
    r"No such file or directory: (['\"])(?P<python>.+)\1"
    r"|unable to open file: name = '(?P<hdf5>[^']+)', errno = 2"
    r"|[Cc]heck that the config directory '(?P<hydra>[^']+)' exists"
    r"|Can't find a valid checkpoint at (?P<trainer>\S+)"
    r"|no file named (?P<names>.+?),? found in directory (?P<folder>.+?)(?: but .*|\.?)$"
)
_MODULE = re.compile(r"No module named '?(?P<name>\w[\w.]*)")
_NAME = re.compile(r"[\w-]+\.[\w.-]+")

# distributions whose modules have other names
DISTRIBUTIONS = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
    "dotenv": "python-dotenv",
    "dateutil": "python-dateutil",
    "attr": "attrs",
    "Bio": "biopython",
    "fitz": "pymupdf",
    "docx": "python-docx",
    "git": "gitpython",
    "jwt": "pyjwt",
    "serial": "pyserial",
    "usb": "pyusb",
    "zmq": "pyzmq",
    "OpenSSL": "pyopenssl",
    "Crypto": "pycryptodome",
    "faiss": "faiss-cpu",
    "Levenshtein": "levenshtein",
    "umap": "umap-learn",
    "pkg_resources": "setuptools<81",
    "lightning_fabric": "pytorch-lightning",
    "tensorflow": "tensorflow-cpu",
    "hydra": "hydra-core",
    "ruamel": "ruamel.yaml",
    "neural_compressor": "neural-compressor-pt",
}

# of packages whose module has the same name; for others the name is a guess
SAME_NAME = frozenset(
    """
    accelerate albumentations datasets deepspeed diffusers einops evaluate fire gymnasium h5py
    joblib jsonargparse kornia lightgbm lightning lmdb matplotlib mlflow nltk numba numpy omegaconf
    pandas peft polars psutil pyarrow pydantic pytorch_lightning requests rich safetensors scipy
    seaborn sentencepiece spacy tensorboard tiktoken timm tokenizers torchaudio torchmetrics
    torchvision tqdm transformers trl tyro wandb webdataset xgboost
    """.split()  # noqa: SIM905 - a list of words stays readable
)
_SHORTEST = 5  # letters of a name: shorter ones are often one letter apart


@dataclass(frozen=True)
class LeftOut:
    """A file that a rank did not find, as it was not sent."""

    path: str
    why: str
    fix: str
    starts_again: bool = False  # the fix ends with the command that starts the run again


def missing_paths(lines: Iterable[str]) -> tuple[str, ...]:
    """Return paths as the script named them, () if there are none; several if one of them would do.
    The last line that names any ended the script."""
    matches = [match for line in lines if (match := _MISSING.search(line.rstrip()))]
    if not matches:
        return ()
    said = matches[-1].groupdict()
    if said["folder"]:
        return tuple(posixpath.join(said["folder"], name) for name in _NAME.findall(said["names"]))
    return (next(filter(None, said.values())),)


def missing_module(lines: Iterable[str]) -> str:
    """Return the module's path without a suffix, "" if no line names one."""
    modules = [match["name"] for line in lines if (match := _MODULE.search(line))]
    return modules[-1].replace(".", "/") if modules else ""


def find_meant_module(name: str) -> str:
    """Return the known module whose name was misspelt, "" if none is certain."""
    known = {*DISTRIBUTIONS, *SAME_NAME, "torch"}
    long = (other for other in sorted(known) if len(other) >= _SHORTEST)
    return "" if name in known else next((other for other in long if is_one_slip(name, other)), "")


def in_project(path: str, start: str, cwd: str) -> str:
    """Return its path relative to the project's top; "" if it is elsewhere on the host.

    Ranks start in `start` on the host, which is the folder `cwd` of the project.
    """
    top = start.removesuffix(f"/{cwd}") if cwd else start
    full = posixpath.normpath(posixpath.join(start, path))
    if not path or (posixpath.isabs(path) and not full.startswith(posixpath.dirname(top) + "/")):
        return ""
    return posixpath.relpath(full, top)
