"""Keepers of runs with --restarts on this host, and what they wrote: for `run` and `stop`."""

from ipexctl.remote import frame_stream
from ipexctl.remote.failure import Failure
from ipexctl.remote.restart import keeper
from ipexctl.remote.run import control, stand_by
from ipexctl.remote.run_files import journal, run_folders


def op_begin(agent):
    """As run.stand_by.begin, for a run with keepers."""
    stand_by.op_begin(agent, keeper.begin)


def op_spare(call, h):
    """The orders of a host that takes part in no attempt yet -> {}: its keeper stands by."""
    link = frame_stream.of_socket(call.agent.guardian)
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


def op_away(call, h):
    """{journal, run_id} -> {away: hosts whose keeper is not connected; None if this one does not
    lead the run}"""
    name = control.keeper_of(h["journal"])
    said = control.ask(run_folders.run_id(h), name, {"away": True}) or {}
    return {"away": said.get("away")}


def op_orders_of_returned(call, h):
    """{journal, run_id, name} -> {orders}: for the keeper of that host, {} if this one does not
    lead the run."""
    name = control.keeper_of(h["journal"])
    said = control.ask(run_folders.run_id(h), name, {"returned": h["name"]}) or {}
    return {"orders": said.get("orders", {})}


def op_stop(call, h):
    """{journal, run_id, by} -> {asked}: there is to be no further attempt."""
    name = control.keeper_of(h["journal"])
    said = control.ask(run_folders.run_id(h), name, {"stop": h["by"]})
    return {"asked": said is not None}
