"""What a run does while its hosts are being connected."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from ipexctl.errors import Unreachable
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.fleet import start_in_thread
from ipexctl.project.send_agreed import answer_no
from ipexctl.run.run import _delay_questions


def test_a_question_waits_until_the_hosts_are_connected() -> None:
    connected, asked = threading.Event(), []

    def confirm(question: str) -> bool:
        asked.append((question, connected.is_set()))
        return True

    connecting = start_in_thread(lambda: connected.wait(10))
    options = _delay_questions(connecting, RunOptions("train.py", confirm=confirm))
    threading.Timer(0.2, connected.set).start()
    assert options.confirm("Send it?")
    assert asked == [("Send it?", True)]


def test_a_host_that_cannot_be_reached_is_reported_before_a_question() -> None:
    def fail() -> None:
        raise Unreachable("n1 is down")

    options = RunOptions("train.py", confirm=lambda question: pytest.fail("it asks"))
    with pytest.raises(Unreachable):
        _delay_questions(start_in_thread(fail), options).confirm("Send it?")


def test_without_a_terminal_nothing_waits() -> None:
    options = replace(RunOptions("train.py"), confirm=answer_no)
    assert _delay_questions(lambda: pytest.fail("it waits"), options) is options
