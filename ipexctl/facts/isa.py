"""Instruction sets as levels that matter to training, from the kernel's flags."""

from __future__ import annotations

from ipexctl.facts.cpu_facts import CpuFacts

_AVX2 = frozenset(("avx2", "fma"))
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512vl", "avx512dq"}

# The best one is last. A host has a level if it has all of its flags.
X86 = (
    ("sse", frozenset[str]()),
    ("avx", frozenset(("avx",))),
    ("avx2", _AVX2),
    ("avx512", _AVX512),
    ("avx512-bf16", _AVX512 | {"avx512_bf16"}),
    ("amx", _AVX512 | {"avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"}),
)
LEVELS = tuple(name for name, _ in X86)
ARM = (
    ("neon", frozenset[str]()),
    ("sve", frozenset(("sve",))),
    ("sve-bf16", frozenset(("sve", "svebf16"))),
)


def cpu_level(cpu: CpuFacts) -> str:
    """Return the best level of a host, "" if its flags are unknown."""
    if not cpu.flags:
        return ""
    table = ARM if cpu.arch.startswith(("aarch64", "arm")) else X86
    return [name for name, flags in table if flags <= cpu.flags][-1]


def at_least(have: str, minimum: str) -> bool:
    """Decide whether a host of level `have` runs code made for `minimum`; unknown levels do not."""
    if have not in LEVELS or minimum not in LEVELS:
        return have == minimum != ""
    return LEVELS.index(have) >= LEVELS.index(minimum)


def is_x86(cpu: CpuFacts) -> bool:
    """Decide whether the host is x86; an unknown architecture counts, as nearly all are."""
    return not cpu.arch or cpu.arch.startswith(("x86", "amd64")) or cpu.arch in ("i386", "i686")


def has_bf16(cpu: CpuFacts) -> bool:
    """Decide whether PyTorch uses bf16 in hardware: on ARM it computes in fp32 by default."""
    return cpu_level(cpu) in ("amx", "avx512-bf16")
