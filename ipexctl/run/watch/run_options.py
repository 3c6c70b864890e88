"""What the user asked of a run."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from ipexctl.machines.target import ROOT
from ipexctl.project import send_agreed, send_project
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.line_filter import Wanted
from ipexctl.run.outcome.retry_command import Typed
from ipexctl.run.plan import mpi
from ipexctl.run.plan.plan_request import Ports
from ipexctl.run.watch import fetch_outputs

HOST_SILENCE = 30.0


@dataclass(frozen=True)
class RunOptions:
    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    n: int | None = None
    ppn: int | None = None
    root: str = ROOT
    env: tuple[tuple[str, str], ...] = ()
    host_timeout: float = HOST_SILENCE
    timeout: float | None = None
    stall: float | None = None
    log_limit: int | None = None
    require_together: bool = False
    shown: Wanted = Wanted()
    fetch: tuple[str, ...] = ()  # globs below the folder where ranks start
    outputs: tuple[str, ...] = ()  # the same, as it came with --outputs
    fetch_limit: int = fetch_outputs.FETCH_LIMIT  # of both
    merge: bool = False  # the files of all hosts in one folder
    dest: Path | None = None  # where those files go
    send: bool = True
    data: tuple[str, ...] = ()  # names of data sets
    force: bool = False  # start even if preflight checks fail
    confirm: send_project.Confirm = send_agreed.never  # is asked before much is sent
    name: str = ""
    detach: bool = False  # leave it when all ranks have started
    lives_on: bool = False  # also when this command is gone
    typed: Typed = Typed()
    ports: Ports | None = None
    launcher: str = mpi.AGENTS
    secret: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        mpi.check_launcher(self.launcher)
