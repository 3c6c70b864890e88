"""Run consecutive steps of a play on this host, in one request. A failed step ends them."""

import os
import time

from ipexctl.common.play_messages import PlayEvent, StepBegun, StepEnded, StepOrder, StepPrinted
from ipexctl.remote.heartbeat import Heartbeat
from ipexctl.remote.play.task import Task, apply_step

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.main import Call


def op_steps(
    call: "Call", steps: "list[dict[str, Any]]", check: bool, diff: bool, password: str = ""
) -> None:
    """Run the steps (StepOrder), and report each (PlayEvent)."""
    orders = [StepOrder.read(step) for step in steps]
    worker = None
    if os.geteuid() and any(order.sudo for order in orders):
        from ipexctl.remote.play.sudo_worker import SudoWorker

        worker = SudoWorker(call, password)
        call.agent.at_end.append(worker.kill)
    try:
        with Heartbeat(call):
            for order in orders:
                if worker and order.sudo:
                    end = worker.run(order, check, diff)
                else:
                    end = _run(call, order, check, diff)
                if end.failure and not order.ignore_errors and not check:
                    break
    finally:
        if worker:
            worker.kill()
            call.agent.at_end.remove(worker.kill)


def op_sudo(call: "Call", password: str = "") -> None:
    """Raise Failure if this user cannot become root without a question."""
    from ipexctl.remote.play.sudo_worker import run_as_root

    run_as_root(["true"], password)


def _run(call: "Call", order: StepOrder, check: bool, diff: bool) -> StepEnded:
    call.emit(StepBegun(order.number).document())
    retries = order.retries
    while True:
        end = _run_once(call, order, check, diff)
        if end.failure is None or not retries or check:
            break
        retries -= 1
        text = "%s; next try in %g s" % (end.failure.what, order.delay)
        call.emit(StepPrinted(order.number, text).document())
        time.sleep(order.delay)
    call.emit(end.document())
    return end


def _run_once(call: "Call", order: StepOrder, check: bool, diff: bool) -> StepEnded:
    def emit(event: PlayEvent) -> None:
        call.emit(event.document())

    task = Task(
        args=order.args,
        check=check,
        diff=diff,
        emit=emit,
        recv=call.recv,
        at_end=call.agent.at_end,
        number=order.number,
    )
    return apply_step(order.module, task)
