"""Format sizes in bytes. Pure."""


def format_bytes(size: int) -> str:
    """Format a size for people: 900 bytes, 12.3 kB, 4.5 MB, 1,234.5 GB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} {'byte' if size == 1 else 'bytes'}"
