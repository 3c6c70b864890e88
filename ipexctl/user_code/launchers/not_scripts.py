"""Programs that people type in place of the script of a run, and the equivalent commands."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from ipexctl.base.quoting import quote_for_pasting

_FILE = re.compile(r"[^-].*\.\w+")
_INSTALL = (
    "ipexctl install creates the environments on the hosts",
    "ipexctl install -r requirements.txt",
)
_DISCONTINUED = re.compile(
    r"(intel[-_]extension[-_]for[-_]pytorch|oneccl[-_]bind[-_]pt|torch[-_]ccl)\b"
)
_IPEX = (
    "IPEX and its oneCCL bindings are discontinued; stock PyTorch includes their optimizations",
    "ipexctl install --stack ipex   # if your code needs it; otherwise: ipexctl install",
)
_ASKS = (
    "what accelerate config asks for are options of ipexctl run",
    "# ipexctl run -f HOSTFILE -ppn RANKS_PER_HOST SCRIPT; --accelerate FILE: its config",
)
_NO_RANKS = ("that command starts no ranks", "ipexctl env exec -- {words}")
_SHELL = (
    "a run starts a Python script; lines of shell scripts become commands",
    "ipexctl migrate {file}",
)
_STARTS = (
    "ipexctl run starts the ranks on every host, and pins them, itself",
    "# -n sets the number of ranks, -ppn that of each host",
)
_SHELL_NAMES = (".sh", ".bash", ".slurm", ".sbatch")
_SHELL_HEAD = re.compile(r"#!.{0,80}\b(?:ba|da|k|z)?sh\b")
_KNOWN = {
    **dict.fromkeys(("pip", "pip3", "uv", "conda", "mamba"), _INSTALL),
    **dict.fromkeys(("accelerate", "fabric", "lightning", "trl"), _NO_RANKS),
    "accelerate config": _ASKS,
    **dict.fromkeys(("fabric run", "lightning run", "uv run", "conda run"), _STARTS),
    **dict.fromkeys(("srun", "horovodrun", "numactl", "nohup", "time", "sudo"), _STARTS),
    **dict.fromkeys(("bash", "sh", "zsh", "source", "sbatch", "qsub"), _SHELL),
}


def meant_by_file(name: str, head: str) -> tuple[str, str]:
    """Return why a file is not a Python script, and what to type; `head`: its first line."""
    file = quote_for_pasting((name,))
    if name.endswith(".ipynb"):
        return "it is a notebook", f"jupyter nbconvert --to script {file}"
    shell = _SHELL_HEAD.match(head) if head.startswith("#!") else name.endswith(_SHELL_NAMES)
    return (_SHELL[0], _SHELL[1].format(file=file)) if shell else ("", "")


def starts_others(words: Sequence[str]) -> bool:
    """Decide whether a program only starts the one that follows in the words, as srun does."""
    return explain_not_script(words) == _STARTS


def explain_not_script(words: Sequence[str]) -> tuple[str, str]:
    """Return why `words` do not start a Python script, and what to type; "" for other programs."""
    program = posixpath.basename(words[0]) if words else ""
    entry = _KNOWN.get(" ".join([program, *words[1:2]]))
    why, hint = entry or _KNOWN.get(program, ("", ""))
    if why == _INSTALL[0] and any(_DISCONTINUED.match(word) for word in words[1:]):
        why, hint = _IPEX
    file = next((word for word in words[1:] if _FILE.fullmatch(word)), "FILE")
    return why, hint.format(file=quote_for_pasting((file,)), words=quote_for_pasting(tuple(words)))
