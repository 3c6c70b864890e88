"""What the hub makes of a launch that mpirun asks for."""

from __future__ import annotations

from collections.abc import Sequence

from ipexctl.common.run_orders import HubOrder
from ipexctl.local.run_options import RunOptions
from ipexctl.remote.hub import mpi_launch
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.watch.start_request import Orders


def of_all(plan: LaunchPlan) -> HubOrder:
    return Orders(plan, "20260101-000000-abcdef", RunOptions("train.py")).compose_hub_order()


def read_launch(plan: LaunchPlan, argv: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The host, and the command there."""
    target, command = mpi_launch.read_launch(of_all(plan), list(argv))
    return target.host, tuple(command)
