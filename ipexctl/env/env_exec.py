"""env exec: one command in the environment of every host."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

from ipexctl.base.host_outcome import HostResult, HostState, PerHost
from ipexctl.common.result_answers import CommandEnded
from ipexctl.facts.env_choice import EnvChoice, asked_env
from ipexctl.inventory.inventory import Host
from ipexctl.local.project_lock import choice_here
from ipexctl.machines.fleet import SILENCE, Fleet
from ipexctl.machines.suggested_commands import hint_install
from ipexctl.machines.target import ROOT, Target
from ipexctl.machines.wire.frames import Frame
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.rank_lines import Lines
from ipexctl.run.plan import launch_plan

OnLine = Callable[[str, str, bool], None]  # host, line, is it from stderr; from many threads


@dataclass(frozen=True)
class Ran(PerHost):
    """One recap per host; `codes`: the exit codes of the command."""

    codes: tuple[tuple[str, int], ...]
    recaps: tuple[HostResult, ...]


def run_in_env(target: Target, argv: Sequence[str], on_line: OnLine, root: str = ROOT) -> Ran:
    """Run `argv` on each host, unchanged; no shell interprets it."""
    one_at_a_time, choice, noted = threading.Lock(), choice_here(), set[str]()

    def one_line(host: str, line: str, err: bool) -> None:
        with one_at_a_time:
            on_line(host, line, err)

    def note(text: str) -> None:
        """Print a note once for all hosts with the same environment."""
        with one_at_a_time:
            if text not in noted:
                noted.add(text)
                target.note(text)

    with Fleet(target, root) as fleet:

        def one(host: Host) -> int:
            fleet.connect(host)
            try:
                return _on_host(fleet, host, argv, one_line, choice=choice, note=note)
            finally:
                fleet.disconnect(host)

        codes = fleet.map_hosts(one)
    recaps = {
        host: HostResult(host.name, HostState.FAILED if code else HostState.OK, f"exit {code}")
        for host, code in codes.items()
    }
    return Ran(tuple((host.name, code) for host, code in codes.items()), fleet.recaps(recaps))


def _on_host(
    fleet: Fleet,
    host: Host,
    argv: Sequence[str],
    one_line: OnLine,
    *,
    choice: EnvChoice,
    note: Callable[[str], None],
) -> int:
    """Run the command on one host; return its exit code."""
    name, agent = host.name, fleet.agents[host]
    with hint_install(fleet.target, choice, fleet.root):
        answer = fleet.call(host, "run.run_environment.find", run_id="exec", **asked_env(choice))
    prepared = launch_plan.read_prepared(answer, choice)
    if prepared.environment and not choice.key:
        note(str(prepared.environment))
    env = prepared.command_env
    streams = {"out": Lines(), "err": Lines()}

    def on_frame(frame: Frame) -> None:
        event = str(frame.header.get("event"))
        for line in streams[event].feed(frame.body) if event in streams else ():
            one_line(name, line, event == "err")

    request = {"argv": list(argv), "env": [list(pair) for pair in env]}
    op = "run_files.exec_in_env.exec"
    reply = agent.call(op, request, timeout=SILENCE, total=math.inf, on_event=on_frame)
    code = reply.done.read(CommandEnded).code
    for event, lines in streams.items():
        for line in lines.end():
            one_line(name, line, event == "err")
    return code
