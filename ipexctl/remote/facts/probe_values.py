"""Parse numbers and CPU lists of /proc and /sys, and list folders, each up to a bound."""

from ipexctl.common.tolerant_reads import names_in

CPUS = 8192  # more than any kernel has; an invalid file cannot make this count forever


def parse_number(text: "str | None") -> "int | None":
    """Parse 85, or 0x41 as on ARM; None for anything else."""
    if text is None:
        return None
    try:
        return int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        return None


def expand_cpu_list(text: str) -> "list[int]":
    """Convert 0-3,8 to [0, 1, 2, 3, 8]."""
    cpus = []  # type: list[int]
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        start, end = parse_number(first), parse_number(last or first)
        if start is not None and end is not None:
            cpus.extend(range(start, min(end, start + CPUS) + 1))
    return cpus[:CPUS]


def kib_to_bytes(number: "int | None") -> "int | None":
    return None if number is None else number * 1024


ENTRIES = 4096  # of one folder


def list_entries(folder: str) -> "list[str]":
    return sorted(names_in(folder)[:ENTRIES])
