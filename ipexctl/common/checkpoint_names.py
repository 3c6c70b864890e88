"""What names of checkpoints tell: their step, and which belong to one checkpoint. Pure."""

import posixpath
import re

from ipexctl.common.message import MYPY

if MYPY:
    from collections.abc import Iterable

STEP = re.compile(r"step[-_=]?([0-9]+)")
NUMBER = re.compile(r"[0-9]+")
OF_RANK = re.compile(r"(rank|shard|part|worker|node|host)s?[-_=.]?[0-9]+", re.IGNORECASE)
PLAIN = "*"  # the key of all names that are written again and again


def step_of(name: str) -> "int | None":
    """Return the step in a checkpoint's name, None if it has no number."""
    for part in reversed(name.split("/")):
        stem = posixpath.splitext(part)[0]
        numbers = STEP.findall(stem) or NUMBER.findall(stem)
        if numbers:
            return int(numbers[-1][:18])
    return None


def checkpoint_key(name: str, is_folder: bool) -> str:
    """Return the key that names of one checkpoint have in common: all plain names, the files of a
    step in one folder; a folder with a step is one of its own."""
    step = step_of(OF_RANK.sub(r"\1", name))
    if step is None:
        return PLAIN
    return name if is_folder else "%s/*%d" % (posixpath.dirname(name) or ".", step)


def is_plain(name: str) -> bool:
    return checkpoint_key(name, is_folder=False) == PLAIN


def checkpoint_label(members: "Iterable[str]") -> str:
    """Return what a checkpoint of these names is called: the only one, or their folder."""
    names = sorted(set(members))
    return names[0] if len(names) == 1 else posixpath.commonpath(names) or "."


def checkpoint_series(name: str) -> str:
    """Return the name without its numbers, by which checkpoints of one series differ."""
    return NUMBER.sub("#", name)


def kinds_of(members: "Iterable[str]") -> "set[bool]":
    """Return {True} for plain names, {False} for those with a step, or both."""
    return set(map(is_plain, members))
