"""Lines of a healthy run that are hidden and counted: warnings, frames of C++."""

from __future__ import annotations

import re

# warnings that a healthy run prints, and frames of C++, which push out the message above them;
# the viewer leaves them out and says how many
_NOISE = re.compile(
    r"^(?:\[rank\d+\]: ?)?frame #\d+: .{1,4000}[(\[]0x[0-9a-f]+(?: in \S.*\)|\])$"
    r"|\[c10d\] The hostname of the client socket cannot be retrieved"
    r"|\[Gloo\] Rank \d+ is connected to \d+ peer ranks"
    # IPEX as it is imported, and its optimize()
    r"|OperatorEntry\.cpp:\d+\] Warning: Warning only once for all operators"
    r"|^  Overriding a previously registered kernel for the same operator"
    r"|^  operator: aten::_addmm_activation|^  dispatch key: AutocastCPU$"
    r"|^ {2,7}(?:  |previous kernel: |new kernel: )registered at /(?:pytorch|opt/workspace/ipex)"
    r"|^My guessed rank = \d+$"
    r"|intel_extension_for_pytorch/utils/_logger\.py:\d+\] No CUDA runtime is found"
    r"|- IPEX - WARNING - '\w+' will be deprecated in a future release"
)
# quicker to look for: one of them is in every such line
_NOISE_WORDS = (
    "frame #",
    "[c10d]",
    "[Gloo]",
    "OperatorEntry",
    "egister",
    "aten::_",
    "AutocastCPU",
    "guessed",
    "IPEX",
    "CUDA ",
)


def without_noise(lines: list[str]) -> list[str]:
    """Without warnings that a healthy run prints, and frames of C++."""
    block = "\n".join(lines)
    if not any(word in block for word in _NOISE_WORDS):
        return lines
    return [line for line in lines if not _NOISE.search(line)]
