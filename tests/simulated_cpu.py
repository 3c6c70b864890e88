"""Practice hosts that report the model and the flags of another CPU; the CPU count is unchanged."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

CPUINFO = "/proc/cpuinfo"
_FOLDER = tempfile.TemporaryDirectory()  # until this process ends, with which its labs end

_SSE = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse"
    " sse2 ss ht syscall nx pdpe1gb rdtscp lm constant_tsc rep_good nopl xtopology nonstop_tsc"
    " cpuid pni pclmulqdq ssse3 cx16 pcid sse4_1 sse4_2 popcnt aes hypervisor lahf_lm"
)
_AVX2 = f"{_SSE} x2apic movbe xsave avx f16c rdrand abm fma fsgsbase bmi1 avx2 smep bmi2 erms"
_AVX512 = (
    f"{_AVX2} avx512f avx512dq rdseed adx clflushopt clwb avx512cd avx512bw avx512vl xsaveopt"
    " xsavec xgetbv1 avx512_vnni"
)
_BF16 = f"{_AVX512} avx512_bf16"
_AMX = (
    f"{_BF16} avx_vnni avx512vbmi umip avx512_vbmi2 gfni vaes vpclmulqdq avx512_bitalg"
    " avx512_vpopcntdq amx_bf16 avx512_fp16 amx_tile amx_int8"
)

# isa -> model name, model, stepping, flags; all are Intel family 6
_MODELS = {
    "sse": ("Intel(R) Xeon(R) CPU           X5650  @ 2.67GHz", 44, 2, _SSE),
    "avx2": ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", 79, 1, _AVX2),
    "avx512": ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", 85, 7, _AVX512),
    "avx512-bf16": ("Intel(R) Xeon(R) Platinum 8380H CPU @ 2.90GHz", 85, 11, _BF16),
    "amx": ("Intel(R) Xeon(R) Platinum 8480+", 143, 8, _AMX),
}


def cpu(isa: str) -> tuple[tuple[str, str], ...]:
    """`covers` of a HostSpec: its /proc/cpuinfo is that of a CPU with this instruction set."""
    path = Path(_FOLDER.name) / isa
    path.write_text(simulate_cpuinfo(Path(CPUINFO).read_text(), isa))
    return ((CPUINFO, str(path)),)


def simulate_cpuinfo(real: str, isa: str) -> str:
    """Return the text `real` with the vendor, model and flags of that instruction set."""
    blocks = []
    for block in real.strip().split("\n\n"):
        lines = {line.partition(":")[0].strip(): line for line in block.splitlines()}
        if re.search(r"^processor\s*:", block, re.M):
            lines.update(_model(isa))
        lines.pop("bugs", None)
        blocks.append("".join(f"{line}\n" for line in lines.values()))
    return "\n".join(blocks) + "\n"


def _model(isa: str) -> dict[str, str]:
    name, model, stepping, flags = _MODELS[isa]
    return {
        "vendor_id": "vendor_id\t: GenuineIntel",
        "cpu family": "cpu family\t: 6",
        "model": f"model\t\t: {model}",
        "model name": f"model name\t: {name}",
        "stepping": f"stepping\t: {stepping}",
        "flags": f"flags\t\t: {flags}",
    }
