"""Keepers of runs with --restarts on this host, and what they wrote: for `run` and `stop`."""

from ipexctl.common import frames
from ipexctl.common.attempt_record import AttemptLines, KeeperAnswer, RunEnded
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


def op_spare(call: "Call", **order: "Any") -> None:
    """Let the keeper of a host that takes part in no attempt yet stand by, by a StartOrder."""
    assert call.agent.guardian is not None  # op_begin came first
    link = frames.of_socket(call.agent.guardian)
    link.write(order)
    frame = link.read()
    if frame is None or KeeperStarted.kind_of(frame[0]) is None:
        raise Failure("the keeper of this spare did not start", slug="spare-not-ready")


def op_wake(call: "Call", root: str, known_as: str, run_id: str) -> None:
    """Start the keeper of a queued run again, which ended or was killed with its host."""
    order = queued_runs.read_order(run_folders.folder_of(root, run_id), known_as)
    if order is not None:
        op_spare(call, **dict(order, woken=True))


def op_forget(call: "Call", root: str, known_as: str, run_id: str, by: str) -> None:
    """End a queued run on this host, where it has no keeper. `by`: the user who stops it, "" if it
    is over on its other hosts."""
    folder = run_folders.folder_of(root, run_id)
    why = "stopped by %s" % by if by else "it is over on its other hosts"
    end = RunEnded(why, False, by_user=bool(by), cut_off=not by)
    attempt_lines.append_line(folder, known_as, end)
    queued_runs.forget_order(folder, known_as)


def op_record(call: "Call", root: str, known_as: str, run_id: str) -> AttemptLines:
    folder = run_folders.folder_of(root, run_id)
    is_alive = control.is_alive(folder, control.keeper_of(known_as))
    return AttemptLines(is_alive, list(attempt_lines.read_lines(folder, known_as)))


def op_ask(
    call: "Call", root: str, known_as: str, run_id: str, ask: "dict[str, Any]"
) -> KeeperAnswer:
    """Ask this host's keeper a KeeperQuestion."""
    name = control.keeper_of(known_as)
    reply = control.ask_supervisor(run_folders.folder_of(root, run_id), name, ask)
    return KeeperAnswer.read(reply or {})
