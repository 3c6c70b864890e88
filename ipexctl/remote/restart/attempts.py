"""Keepers of runs with --restarts on this host, and what they wrote: for `run` and `stop`."""

from ipexctl.common import frames
from ipexctl.remote.failure import Failure
from ipexctl.remote.restart import keeper
from ipexctl.remote.run import control, stand_by
from ipexctl.remote.run_files import journal, run_folders


def op_begin(agent):
    """As run.stand_by.begin, for a run with keepers."""
    stand_by.op_begin(agent, keeper.begin)


def op_spare(call, h):
    """The orders of a host that takes part in no attempt yet -> {}: its keeper stands by."""
    link = frames.of_socket(call.agent.guardian)
    link.write(h)
    frame = link.read()
    if frame is None or "kept" not in frame[0]:
        raise Failure("the keeper of this spare did not start", slug="spare-not-ready")
    return {}


def op_story(call, h):
    """{root, journal, run_id} -> {story: [{attempt, run_id, hosts, why, ...}, ...], alive}"""
    run = run_folders.run_id(h)
    folder = run_folders.folder_of(h)
    found = journal.read_lines(keeper.attempts_of(folder, h["journal"]))
    return {"story": found, "alive": control.is_alive(run, control.keeper_of(h["journal"]))}


def op_ask(call, h):
    """{journal, run_id, ask: as Keeper.answer has it} -> its answer, {} without a keeper here"""
    name = control.keeper_of(h["journal"])
    return control.ask(run_folders.run_id(h), name, h["ask"]) or {}
