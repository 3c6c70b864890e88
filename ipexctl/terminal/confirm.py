"""Ask a question at the terminal. Its subject is shown before, on the same stream."""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable
from typing import TextIO, TypeVar

from ipexctl.errors import InputError, printable_text
from ipexctl.local.accepted_settings import SettingsProposal, refusal_error
from ipexctl.terminal.live_lines import without_live_lines

T = TypeVar("T")
DECLINED = "nothing was changed: you answered no"
NOT_REMOVED = "nothing was removed"
_CANNOT_ASK = "cannot ask for confirmation: stdin is not a terminal (use --yes)"
_ASKS = "the command asks before it changes anything"


@without_live_lines()
def confirm(
    question: str,
    stdin: TextIO,
    refusal: InputError | None = None,
    out: TextIO | None = None,
    *,
    interrupted: str = "",
) -> bool:
    """Ask; Enter means yes after `[Y/n]`; Ctrl-D means no. What was typed before the question is
    not an answer to it. Raises `refusal` without a terminal. `interrupted`: what a Ctrl-C here
    leaves, if it is less than what the command declares."""
    if not stdin.isatty():
        raise refusal or InputError(_CANNOT_ASK, why=_ASKS, slug="no-terminal").with_meant(
            "", "--yes"
        )
    stream, (*plan, last) = out or sys.stderr, question.split("\n")
    for line in plan:
        print(line, file=stream)
    termios.tcflush(stdin, termios.TCIFLUSH)
    while True:
        try:
            print(last, end="", file=stream, flush=True)
            answer = stdin.readline()
        except KeyboardInterrupt:
            print(file=stream)
            if not interrupted:
                raise
            raise KeyboardInterrupt(f"interrupted; {interrupted}") from None
        word = answer.strip().lower()
        if not answer:
            print(file=stream)
        if word in ("y", "yes"):
            return True
        if word in ("n", "no", ""):
            return answer != "" and not word and "[Y/" in last
        print("please type yes or no", file=stream)


def removal_agreed(
    show: Callable[[T], None], *, yes: bool, words: Callable[[T], tuple[str, ...]] = lambda _: ()
) -> Callable[[T], bool]:
    """Return a function that shows what is to be removed, and asks; with `yes` neither. `words`:
    as for _refuse_to_ask, of a command to which --yes cannot just be added."""

    @without_live_lines()
    def agreed(plan: T) -> bool:
        if yes:
            return True
        show(plan)
        refusal = _refuse_to_ask(_CANNOT_ASK, _ASKS, *typed) if (typed := words(plan)) else None
        return confirm("Remove this? [y/N] ", sys.stdin, refusal, interrupted=NOT_REMOVED)

    return agreed


def _refuse_to_ask(what: str, why: str, typed: str, *right: str) -> InputError:
    """Return the error without a terminal. The command does not ask with the words `right` in the
    place of the one that was typed."""
    error = InputError(what, why=why, slug="no-terminal")
    return error.with_surplus([typed], instead=right)


def stop_agreed(
    describe: Callable[[T], str], words: Callable[[T], tuple[str, ...]]
) -> Callable[[T], bool]:
    """Return a function that says what would be stopped, and asks. `words`: as for
    removal_agreed."""

    def agreed(run: T) -> bool:
        what = printable_text(describe(run))
        why = "stop asks about runs that are not yours or not of this project, and stdin is not a "
        refusal = _refuse_to_ask(what, f"{why}terminal", *words(run))
        question = f"{what}\nStop it? [y/N] "
        return confirm(question, sys.stdin, refusal, interrupted="nothing was stopped")

    return agreed


_WHAT = {
    "hostfile": "these hosts receive your code and the secrets that you pass",
    "ssh_config": "ssh runs the programs that it names",
    "root": "folder on the hosts",
}


def ask_to_accept(proposed: SettingsProposal, stdin: TextIO) -> bool:
    """Ask on stderr: stdout may be a JSON document."""
    print(f"{printable_text(proposed.project)} sets", file=sys.stderr)
    for setting in proposed.settings:
        print(f"  {setting.key:<11} {printable_text(setting.value)}", file=sys.stderr)
        print(f"  {'':<11} {_WHAT[setting.key]}", file=sys.stderr)
    question = (
        "Accept these settings? You will be asked again if they or these files change. [y/N] "
    )
    try:
        return confirm(question, stdin, refusal_error(proposed), interrupted="nothing was accepted")
    except KeyboardInterrupt as e:  # no command has begun that would print it
        print(e, file=sys.stderr)
        raise
