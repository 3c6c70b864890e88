"""What is shown of ranks that Ctrl-C ends."""

from __future__ import annotations

import pytest

from ipexctl.explain.known_failures import known_failures
from ipexctl.run.outcome.interrupt_traces import MOST_LINES, InterruptTraces

TRACE = ["Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "    f()"]
STOPPED = [*TRACE, "KeyboardInterrupt"]
FAILED = [*TRACE, "ValueError: no"]
GONE = [*TRACE, "RuntimeError: [gloo/pair.cc:553] Connection closed by peer [10.0.0.2]:64144."]
LINK = ["", "During handling of the above exception, another exception occurred:", ""]

CASES = [
    (["saving", *STOPPED, "bye"], ["saving", "bye"], {0}),
    ([*TRACE, "KeyboardInterrupt: "], [], {0}),
    ([f"\x1b[1m{TRACE[0]}\x1b[0m", *TRACE[1:], "\x1b[31mKeyboardInterrupt\x1b[0m"], [], {0}),
    ([f"[rank0]: {line}" for line in STOPPED], [], {0}),  # as torch has it in a process group
    (FAILED, FAILED, set()),
    ([*STOPPED, *LINK, *STOPPED, "end"], ["end"], {0}),
    ([*STOPPED, *LINK, *FAILED], [*LINK, *FAILED], {0}),
    ([*FAILED, *LINK, *STOPPED, "end"], [*FAILED, "end"], {0}),  # what it was in when it was ended
    ([*FAILED, *LINK, *FAILED], [*FAILED, *LINK, *FAILED], set()),
    ([*FAILED, "", "end"], [*FAILED, "", "end"], set()),
    ([*GONE, *LINK, *STOPPED], [], {0}),  # torch formats its message when the signal comes
    ([*FAILED, *LINK, *GONE], FAILED, {0}),
    (["saving", *GONE], ["saving"], {0}),
    (TRACE, TRACE, set()),  # cut off
    ([TRACE[0], *["  x"] * MOST_LINES, "y"], [TRACE[0], *["  x"] * MOST_LINES, "y"], set()),
    (["KeyboardInterrupt"], ["KeyboardInterrupt"], set()),
]


@pytest.mark.parametrize(("lines", "shown", "hidden"), CASES)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_traceback_of_ctrl_c_is_hidden_and_any_other_shown(
    lines: list[str], shown: list[str], hidden: set[int], at_once: bool
) -> None:
    traces = InterruptTraces(known_failures)
    pieces = [lines] if at_once else [[line] for line in lines]
    seen = [text for piece in pieces for text in traces.shown(0, piece)] + traces.rest(0)
    assert (seen, traces.hidden) == (shown, hidden)


def test_ranks_do_not_get_into_each_others_way() -> None:
    traces = InterruptTraces()
    seen = []
    for mine, other in zip(STOPPED, FAILED, strict=True):
        seen += traces.shown(0, [mine]) + traces.shown(1, [other])
    assert (seen, traces.hidden) == (FAILED, {0})
