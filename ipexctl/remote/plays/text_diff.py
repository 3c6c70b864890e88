"""What --diff shows of a file."""

MOST = 1 << 18
MOST_PAIRS = 1000000  # of equal lines: difflib's time grows with them


def text_diff(path, old, new):
    """A unified diff of two texts; what is binary or large is named as such."""
    if max(len(old), len(new)) > MOST:
        return "%s: %d -> %d bytes, too large for a diff\n" % (path, len(old), len(new))
    try:
        before, after = old.decode("utf-8"), new.decode("utf-8")
    except UnicodeDecodeError:
        return "%s: %d -> %d bytes, binary\n" % (path, len(old), len(new))
    import difflib  # a millisecond, for --diff alone

    if _pairs(before, after) > MOST_PAIRS:
        return "%s: %d -> %d bytes, too many equal lines for a diff\n" % (path, len(old), len(new))
    shown = path.replace("\n", "\\n")
    lines = difflib.unified_diff(_lines(before), _lines(after), shown, shown)
    return "".join(lines)


def _pairs(before, after):
    """Of the lines that difflib compares: it leaves out those that are more than 1 % of all."""
    from collections import Counter

    old, new = Counter(before.split("\n")), Counter(after.split("\n"))
    popular = sum(new.values()) // 100 + 1 if sum(new.values()) >= 200 else 200
    return sum(n * old[line] for line, n in new.items() if n <= popular)


def _lines(text):
    """By \\n alone: str.splitlines knows other ends, too."""
    lines = [line + "\n" for line in text.split("\n")]
    if lines[-1] == "\n":
        return lines[:-1]
    return lines[:-1] + [lines[-1] + "\\ no newline at the end\n"]
