"""What --diff shows of a file."""

MOST = 1 << 18


def text_diff(path, old, new):
    """A unified diff of two texts; what is binary or large is named as such."""
    if max(len(old), len(new)) > MOST:
        return "%s: %d -> %d bytes, too large for a diff\n" % (path, len(old), len(new))
    try:
        before, after = old.decode("utf-8"), new.decode("utf-8")
    except UnicodeDecodeError:
        return "%s: %d -> %d bytes, binary\n" % (path, len(old), len(new))
    import difflib  # a millisecond, for --diff alone

    shown = path.replace("\n", "\\n")
    lines = difflib.unified_diff(_lines(before), _lines(after), shown, shown)
    return "".join(lines)


def _lines(text):
    """By \\n alone: str.splitlines knows other ends, too."""
    lines = [line + "\n" for line in text.split("\n")]
    if lines[-1] == "\n":
        return lines[:-1]
    return lines[:-1] + [lines[-1] + "\\ no newline at the end\n"]
