"""Make the diff of a file for --diff."""

MOST_DIFF_BYTES = 1 << 18  # of a file
MOST_CHANGED = 1500  # lines: difflib's time is quadratic


def text_diff(path: str, old: bytes, new: bytes) -> str:
    """Return a unified diff of two texts; if they are binary or large, say so instead."""
    if max(len(old), len(new)) > MOST_DIFF_BYTES:
        return "%s: %d -> %d bytes, too large for a diff\n" % (path, len(old), len(new))
    try:
        before, after = old.decode("utf-8"), new.decode("utf-8")
    except UnicodeDecodeError:
        return "%s: %d -> %d bytes, binary\n" % (path, len(old), len(new))
    import difflib  # takes a millisecond, only needed for --diff

    if max(_count_changed_lines(before, after)) > MOST_CHANGED:
        return "%s: %d -> %d bytes, too many lines differ for a diff\n" % (path, len(old), len(new))
    shown = path.replace("\n", "\\n")
    lines = difflib.unified_diff(_lines(before), _lines(after), shown, shown)
    return "".join(lines)


def _count_changed_lines(before: str, after: str) -> "tuple[int, int]":
    """Count the lines of each text between the common start and the common end."""
    old, new = before.split("\n"), after.split("\n")
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return len(old) - start - end, len(new) - start - end


def _lines(text: str) -> "list[str]":
    """Split only at line feeds: str.splitlines splits at other characters, too."""
    lines = [line + "\n" for line in text.split("\n")]
    if lines[-1] == "\n":
        return lines[:-1]
    return lines[:-1] + [lines[-1] + "\\ no newline at the end\n"]
