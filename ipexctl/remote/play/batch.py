"""Run consecutive steps of a play on this host, in one request. A failed step ends them."""

import os
import time

from ipexctl.remote.heartbeat import Heartbeat
from ipexctl.remote.play.task import Task, apply_step

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.main import Call


def op_steps(
    call: "Call", steps: "list[dict[str, Any]]", check: bool, diff: bool, password: str = ""
) -> "dict[str, Any]":
    """{steps: [{number, module, args, sudo, ignore_errors, retries, delay}], check, diff,
    password?} -> {}

    Emits {"event": "begin", number}, {"event": "line", number, text} and {"event": "end", number,
    changed, detail, diff, reads, writes, failure?}; asks with {"event": "need", sha256}.
    """
    worker = None
    if os.geteuid() and any(step["sudo"] for step in steps):
        from ipexctl.remote.play.sudo_worker import SudoWorker

        worker = SudoWorker(call, password)
        call.agent.at_end.append(worker.kill)
    try:
        with Heartbeat(call):
            for step in steps:
                if worker and step["sudo"]:
                    end = worker.run({"steps": [step], "check": check, "diff": diff})
                else:
                    end = _run(call, step, check, diff)
                if "failure" in end and not step["ignore_errors"] and not check:
                    break
    finally:
        if worker:
            worker.kill()
            call.agent.at_end.remove(worker.kill)
    return {}


def op_sudo(call: "Call", password: str = "") -> "dict[str, Any]":
    """{password?} -> {}. Raises Failure if this user cannot become root without a question."""
    from ipexctl.remote.play.sudo_worker import run_as_root

    run_as_root(["true"], password)
    return {}


def _run(call: "Call", step: "dict[str, Any]", check: bool, diff: bool) -> "dict[str, Any]":
    number = step["number"]
    call.emit({"event": "begin", "number": number})
    retries = step["retries"]
    while True:
        end = _run_once(call, step, check, diff)
        if "failure" not in end or not retries or check:
            break
        retries -= 1
        text = "%s; next try in %g s" % (end["failure"]["what"], step["delay"])
        call.emit({"event": "line", "number": number, "text": text})
        time.sleep(step["delay"])
    end.update(event="end", number=number)
    call.emit(end)
    return end


def _run_once(call: "Call", step: "dict[str, Any]", check: bool, diff: bool) -> "dict[str, Any]":
    def emit(event: "dict[str, Any]") -> None:
        call.emit(dict(event, number=step["number"]))

    task = Task(
        args=step["args"],
        check=check,
        diff=diff,
        emit=emit,
        recv=call.recv,
        at_end=call.agent.at_end,
    )
    return apply_step(step["module"], task)
