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

    lines = difflib.unified_diff(_lines(before), _lines(after), path, path)
    return "".join(lines)


def _lines(text):
    return [
        line if line.endswith("\n") else line + "\n\\ no newline at the end\n"
        for line in text.splitlines(True)
    ]
