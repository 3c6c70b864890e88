"""What a play prints of a step that failed."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from ipexctl.play.command.play_screen import PlayScreen
from ipexctl.play.text.play_outcome import State, StepOutcome

SUGGESTED = "the host suggests: or as root on this host: echo 'x' > /etc/sudoers.d/y\nipexctl ps"


def test_words_of_a_host_are_no_line_to_paste() -> None:
    out = io.StringIO()
    place: Any = SimpleNamespace(source="a.yaml", line=3)
    step: Any = SimpleNamespace(number=1, title="sh x", place=place)
    screen = PlayScreen(Console(file=out, width=200))
    screen._print(
        screen._failure_lines(StepOutcome(step, "node01", State.FAILED, "no", hint=SUGGESTED))
    )
    *_, first, second = out.getvalue().splitlines()
    assert first.startswith("  try: # the host suggests: or as root") and first.endswith("/y")
    assert second == "       ipexctl ps"
