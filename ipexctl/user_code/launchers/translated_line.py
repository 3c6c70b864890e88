"""Translate a pasted line to the equivalent `ipexctl run`, with a note about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ipexctl.base import retry_command
from ipexctl.base.typed_command import Typed
from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.launchers.line_request import (
    LineRequest,
    Merged,
    TypedOptions,
    merge_requests,
)
from ipexctl.user_code.launchers.pasted_line import PastedLine


@dataclass(frozen=True)
class Replacement:
    """`options` go before the script; they include those typed before the line."""

    options: tuple[str, ...]
    script: tuple[str, ...]
    note: str


def translate_line(
    line: PastedLine,
    own: TypedOptions,
    typed: Sequence[str] = (),
    config: LineRequest | None = None,
) -> Replacement:
    """Return the command. `typed`: the words of `own`. `config`: an Accelerate config's request."""
    requests = [request.fill_counts(config) if config else request for request in line.requests]
    merged = merge_requests(requests, own)
    options = [*merged.options, *(["--accelerate", config.who] if config else []), *typed]
    options += ["-m"] if line.is_module else []
    counted = (
        merged.counts or (config is not None and config.has_counts) or "--accelerate" in own.names
    )
    note = "; ".join(_translation_notes(line, options, merged, counted=counted))
    return Replacement(tuple(options), line.script, note)


def _translation_notes(
    line: PastedLine, options: list[str], merged: Merged, *, counted: bool
) -> Iterator[str]:
    script = line.script if len(line.script) == 1 else (line.script[0], "...")
    command = retry_command.compose_retry_command(Typed(("run", *options), script), (), None)
    names = line.starts_ranks or [line.requests[-1].who]
    yield f"{' and '.join(names)} replaced by: {command}"
    yield from merged.describe_conflicts()
    if line.starts_ranks and not counted:
        yield "no number of ranks is given, so ipexctl's default applies"
    yield from line.remarks
