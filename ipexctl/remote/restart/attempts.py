"""Keepers of runs with --restarts on this host, and what they wrote: for `run` and `stop`."""

from ipexctl.common import frames
from ipexctl.common.attempt_record import RunEnded
from ipexctl.common.supervisor_messages import KeeperStarted
from ipexctl.remote.failure import Failure
from ipexctl.remote.restart import keeper
from ipexctl.remote.run import control, stand_by
from ipexctl.remote.run_files import attempt_lines, queued_runs, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.main import AgentLoop, Call


def op_begin(agent: "AgentLoop") -> None:
    """Begin the host's part as run.stand_by.begin does, for a run with keepers."""
    stand_by.op_begin(agent, keeper.fork_keeper)


def op_spare(call: "Call", **order: "Any") -> "dict[str, Any]":
    """The orders of a host that takes part in no attempt yet -> {}: its keeper stands by."""
    assert call.agent.guardian is not None  # op_begin came first
    link = frames.of_socket(call.agent.guardian)
    link.write(order)
    frame = link.read()
    if frame is None or KeeperStarted.kind_of(frame[0]) is None:
        raise Failure("the keeper of this spare did not start", slug="spare-not-ready")
    return {}


def op_wake(call: "Call", root: str, known_as: str, run_id: str) -> "dict[str, Any]":
    """Start the keeper of a queued run again, which ended or was killed with its host."""
    order = queued_runs.read_order(run_folders.folder_of(root, run_id), known_as)
    if order is not None:
        op_spare(call, **dict(order, woken=True))
    return {}


def op_forget(call: "Call", root: str, known_as: str, run_id: str, by: str) -> "dict[str, Any]":
    """End a queued run on this host, where it has no keeper. `by`: the user who stops it, "" if it
    is over on its other hosts."""
    folder = run_folders.folder_of(root, run_id)
    why = "stopped by %s" % by if by else "it is over on its other hosts"
    end = RunEnded(why, False, by_user=bool(by), cut_off=not by)
    attempt_lines.append_line(folder, known_as, end)
    queued_runs.forget_order(folder, known_as)
    return {}


def op_record(call: "Call", root: str, known_as: str, run_id: str) -> "dict[str, Any]":
    """{root, known_as, run_id} -> {lines: [RecordLine, ...], alive}"""
    folder = run_folders.folder_of(root, run_id)
    lines = [line.document() for line in attempt_lines.read_lines(folder, known_as)]
    return {"lines": lines, "alive": control.is_alive(folder, control.keeper_of(known_as))}


def op_ask(
    call: "Call", root: str, known_as: str, run_id: str, ask: "dict[str, Any]"
) -> "dict[str, Any]":
    """A KeeperQuestion -> KeeperAnswer; {} where there is no keeper."""
    name = control.keeper_of(known_as)
    return control.ask_supervisor(run_folders.folder_of(root, run_id), name, ask) or {}
