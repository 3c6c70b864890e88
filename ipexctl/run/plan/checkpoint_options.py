"""Read --checkpoints and --resume-arg."""

from __future__ import annotations

import shlex

from ipexctl.base.quoting import quote
from ipexctl.common.checkpoint_names import is_plain
from ipexctl.errors import InputError

EXAMPLE = "--resume-arg '--resume_from_checkpoint {checkpoint}'"


def patterns_of(text: str) -> tuple[str, ...]:
    """Parse --checkpoints. Raise InputError."""
    patterns = tuple(part for part in (p.strip() for p in text.split(",")) if part)
    for pattern in patterns:
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise InputError(
                f"--checkpoints {quote((pattern,))}: not below the folder where ranks start",
                hint="--checkpoints 'out/checkpoint-*'",
                slug="checkpoint-pattern-outside",
            )
    return patterns


def describe_one_checkpoint(text: str) -> str:
    """Name the plain names of --checkpoints that are one checkpoint together; "" if there are not
    several. A pattern may match several, too: the hosts note that when they are written."""
    names = [name for name in patterns_of(text) if is_plain(name) and not set(name) & set("*?[")]
    if len(names) < 2:
        return ""
    return f"{', '.join(names[:-1])} and {names[-1]} are taken together as one checkpoint"


def resume_words(text: str, path: str) -> tuple[str, ...]:
    """Return the script's additional arguments; none without a checkpoint. Raise InputError."""
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise InputError(
            f"--resume-arg {quote((text,))}: {e}",
            hint=EXAMPLE,
            slug="resume-arg-invalid",
        ) from None
    if words and "{checkpoint}" not in text:
        raise InputError(
            f"--resume-arg {quote((text,))}: {{checkpoint}} is missing",
            why="it stands for the path of the checkpoint",
            hint=EXAMPLE,
            slug="resume-arg-invalid",
        )
    return tuple(word.replace("{checkpoint}", path) for word in words) if path else ()
