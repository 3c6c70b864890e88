"""Processors by family, model and stepping: their names, and what they can compute.

It is only for messages, and to detect that a hypervisor or kernel hides a part. What a host can
really use is decided by its flags alone (isa.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ipexctl.base.values import int_of
from ipexctl.facts import isa
from ipexctl.facts.cpu_facts import CpuFacts
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Processor:
    """`level`: the one of isa.py that it has if nothing is hidden; "" if that varies."""

    name: str
    level: str = ""

    @property
    def bf16(self) -> bool:
        return self.level in ("amx", "avx512-bf16")


_OLD = Processor("before Haswell", "sse")
_SANDY = Processor("Sandy Bridge", "avx")
_SKYLAKE = Processor("Skylake-SP", "avx512")
_CASCADE = Processor("Cascade Lake", "avx512")
_COOPER = Processor("Cooper Lake", "avx512-bf16")
_ZEN = Processor("Zen", "avx2")
_ZEN2 = Processor("Zen 2", "avx2")
_ZEN3 = Processor("Zen 3", "avx2")
_ZEN4 = Processor("Zen 4", "avx512-bf16")
_ZEN5 = Processor("Zen 5", "avx512-bf16")
_CLIENT = Processor("Skylake client", "avx2")

# family 6; the models of one generation
_INTEL: dict[Processor, tuple[int, ...]] = {
    _OLD: (15, 23, 26, 29, 30, 31, 37, 44, 46, 47),
    _SANDY: (42, 45),
    Processor("Ivy Bridge", "avx"): (58, 62),
    Processor("Haswell", "avx2"): (60, 63, 69, 70),
    Processor("Broadwell", "avx2"): (61, 71, 79, 86),
    _CLIENT: (78, 94, 142, 158, 165, 166),
    Processor("Knights Landing"): (87, 133),
    Processor("Ice Lake-SP", "avx512"): (106, 108),
    Processor("Ice Lake client", "avx512"): (125, 126),
    Processor("Tiger Lake", "avx512"): (140, 141),
    Processor("Rocket Lake", "avx512"): (167,),
    Processor("Sapphire Rapids", "amx"): (143,),
    Processor("Emerald Rapids", "amx"): (207,),
    Processor("Granite Rapids", "amx"): (173, 174),
    Processor("Sierra Forest", "avx2"): (175,),
    Processor("Clearwater Forest", "avx2"): (221,),
    Processor("Alder Lake", "avx2"): (151, 154, 190),
    Processor("Raptor Lake", "avx2"): (183, 186, 191),
    Processor("Meteor Lake", "avx2"): (170, 172),
    Processor("Arrow Lake", "avx2"): (181, 197, 198),
    Processor("Lunar Lake", "avx2"): (189,),
}
_INTEL_BY_MODEL = {model: name for name, models in _INTEL.items() for model in models}

# (implementer, part)
_ARM: dict[tuple[int, int], str] = {
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD84): "Neoverse V3",
    (0x41, 0xD8E): "Neoverse N3",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "Kunpeng 920",
    (0xC0, 0xAC3): "Ampere One",
}
_ZEN_FAMILIES: dict[int, Iterable[tuple[int, int, Processor]]] = {
    # family: (first model, last model, name)
    23: ((0x00, 0x2F, _ZEN), (0x30, 0xAF, _ZEN2)),
    24: ((0x00, 0xFF, Processor("Hygon Dhyana", "avx2")),),
    25: (
        (0x00, 0x0F, _ZEN3),
        (0x10, 0x1F, _ZEN4),
        (0x20, 0x5F, _ZEN3),
        (0x60, 0xAF, _ZEN4),
    ),
    26: ((0x00, 0x4F, _ZEN5), (0x60, 0x7F, _ZEN5)),
}
# (family, first model, last model): the product name of AMD's servers of that design
_EPYC = {
    (23, 0x00, 0x0F): "EPYC Naples",
    (23, 0x30, 0x3F): "EPYC Rome",
    (25, 0x00, 0x0F): "EPYC Milan",
    (25, 0x10, 0x1F): "EPYC Genoa",
    (25, 0xA0, 0xAF): "EPYC Bergamo",
    (26, 0x00, 0x0F): "EPYC Turin",
    (26, 0x10, 0x1F): "EPYC Turin Dense",
}
UNKNOWN = Processor("")
_CUT = re.compile("Pentium|Celeron")


def find_processor(cpu: CpuFacts) -> Processor:
    """Look the processor up; return UNKNOWN for one that no table has or a hypervisor made up."""
    if cpu.family is None or cpu.model is None:
        return UNKNOWN
    if cpu.vendor.startswith("0x"):
        return Processor(_ARM.get((int_of(cpu.vendor) or 0, cpu.model), ""))
    if cpu.vendor == "GenuineIntel":
        return _intel_processor(cpu)
    if cpu.vendor in ("AuthenticAMD", "HygonGenuine"):
        return next(
            (p for a, b, p in _ZEN_FAMILIES.get(cpu.family, ()) if a <= cpu.model <= b), UNKNOWN
        )
    return UNKNOWN


def underreported_processor(cpu: CpuFacts) -> Processor | None:
    """Return the processor if /proc/cpuinfo shows less than it can compute, else None."""
    processor, level = find_processor(cpu), isa.cpu_level(cpu)
    if not processor.level or not level or isa.at_least(level, processor.level):
        return None
    return processor


def is_guest(cpu: CpuFacts) -> bool:
    return "hypervisor" in cpu.flags


def anonymous_guest(cpu: CpuFacts) -> bool:
    """Detect a guest whose hypervisor made up the processor: no product has such a name."""
    return is_guest(cpu) and not re.search(r"\d{4}", cpu.model_name.partition(" @ ")[0])


def processor_generation(cpu: CpuFacts) -> str:
    """Return Sapphire Rapids, EPYC Milan, Neoverse V1; "" for unknown or older ones."""
    if "EPYC" in cpu.model_name:
        for (family, first, last), name in _EPYC.items():
            if cpu.family == family and cpu.model is not None and first <= cpu.model <= last:
                return name
    processor = find_processor(cpu)
    return "" if processor is _OLD else processor.name


def _intel_processor(cpu: CpuFacts) -> Processor:
    if cpu.family != 6 or cpu.model is None:
        return UNKNOWN
    if cpu.model == 85:  # three generations, distinguished by the stepping
        stepping = cpu.stepping
        if stepping is None:
            return UNKNOWN
        return _SKYLAKE if stepping <= 4 else _CASCADE if stepping <= 7 else _COOPER
    processor = _INTEL_BY_MODEL.get(cpu.model, UNKNOWN)
    if processor.name == "Sapphire Rapids" and "Max" in cpu.model_name:
        return Processor("Xeon Max", processor.level)
    if cpu.model in (125, 126, 140, 141, 158, 167) or _CUT.search(cpu.model_name):
        return Processor(processor.name)  # some of them are sold without AVX or AVX-512
    return processor
