"""Consecutive steps of a play on this host, in one request. The first that fails ends them."""

import time

from ipexctl.remote.failure import Failure, document
from ipexctl.remote.heartbeat import Heartbeat
from ipexctl.remote.play.task import Task, outcome


def op_steps(call, args):
    """{steps: [{number, module, args, sudo, ignore_errors, retries, delay}], check, diff,
    password?} -> {}

    Says {"event": "begin", number}, {"event": "line", number, text} and {"event": "end", number,
    changed, detail, diff, reads, writes, seconds, failure?}; asks with {"event": "need", sha256}.
    """
    worker = None
    if any(step["sudo"] for step in args["steps"]):
        worker = _sudo_worker(call, args)
        call.agent.at_end.append(worker.kill)
    try:
        with Heartbeat(call):
            _run_steps(call, args, worker)
    finally:
        if worker:
            worker.kill()
            call.agent.at_end.remove(worker.kill)
    return {}


def _sudo_worker(call, args):
    from ipexctl.remote.play.sudo_worker import SudoWorker

    return SudoWorker(call, args.get("password", ""))


def _run_steps(call, args, worker):
    for step in args["steps"]:
        call.emit({"event": "begin", "number": step["number"]})
        began = time.time()
        end = _with_retries(call, args, step, worker)
        end.update({"event": "end", "number": step["number"]})
        end["seconds"] = time.time() - began
        call.emit(end)
        if "failure" in end and not step["ignore_errors"] and not args["check"]:
            break


def op_sudo(call, args):
    """{password?} -> {}. Raises Failure where this user cannot become root without a question."""
    _sudo_worker(call, args).check()
    return {}


def _with_retries(call, args, step, worker):
    left = step["retries"]
    while True:
        end = _once(call, args, step, worker)
        if "failure" not in end or not left or args["check"]:
            return end
        left -= 1
        text = "%s; next try in %g s" % (end["failure"]["what"], step["delay"])
        call.emit({"event": "line", "number": step["number"], "text": text})
        time.sleep(step["delay"])


def _once(call, args, step, worker):
    if step["sudo"]:
        try:
            return worker.run(step, args["check"], args["diff"])
        except Failure as e:  # of sudo; those of the step are in what it returns
            return {"failure": document(e)}

    def emit(event):
        event["number"] = step["number"]
        call.emit(event)

    task = Task(
        args=step["args"],
        check=args["check"],
        diff=args["diff"],
        emit=emit,
        recv=call.recv,
        at_end=call.agent.at_end,
    )
    return outcome(step["module"], task)
