"""Make the orders for hosts when a run begins, and for keepers to start the run again."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import Any

from ipexctl.blobs.tls_keys import Keys
from ipexctl.common.message import Message
from ipexctl.common.restart_plan import VOTERS, RestartCommon, RestartHost, RestartPlan, VoterPlan
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_inputs import HostInputs
from ipexctl.common.run_orders import HostOfRun, HubOrder, MpiNames, RankOrder, StartOrder
from ipexctl.common.shown_plans import ShownPlan
from ipexctl.inventory.inventory import Host
from ipexctl.local.run_options import BUCKET, RunOptions
from ipexctl.local.shipped_tables import rank_module
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.run_inputs import Inputs
from ipexctl.run.plan import port_plan, rank_variables, shown_plan
from ipexctl.run.plan.checkpoint_options import patterns_of, resume_words
from ipexctl.run.plan.interface_choice import choose_host_address
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, PlannedHost, RankPlace
from ipexctl.run.plan.mpirun import machinefile_text, rank_starter_command
from ipexctl.stack import mpi

N = "{n}"  # as in remote/restart/attempt_orders.py
INTERRUPT_GRACE = 10.0  # seconds after the first Ctrl-C, in which ranks may save


@dataclass(frozen=True)
class Orders:
    """The orders for all hosts of a run. Secrets go into the ranks' environment only."""

    plan: LaunchPlan
    run_id: str
    options: RunOptions
    about: RunAbout = RunAbout()
    before: Mapping[str, float] = field(default_factory=dict)  # seconds of what came before
    reached: Mapping[str, Host] = field(default_factory=dict)  # where
    data: Mapping[str, Sequence[str]] = field(default_factory=dict)  # folders that are in use
    keys: Keys = field(default_factory=dict, repr=False)
    resumed: str = ""  # the checkpoint with which ranks start, relative to their folder
    restart_plans: Mapping[str, RestartPlan] = field(default_factory=dict, repr=False)
    inputs: Inputs = Inputs(None, {})

    def compose_start_order(self, name: str, work: str) -> StartOrder:
        """Compose the order by which a host starts its ranks in the folder `work`."""
        host, first = next(h for h in self.plan.hosts if h.host == name), self.plan.hosts[0]
        own_inputs = self.inputs.hosts.get(name, HostInputs())
        return StartOrder(
            about=self.about,
            inputs=own_inputs.replace(before=dict(self.before)).document(),
            run_id=self.run_id,
            lease=self.options.host_timeout,
            env=dict(host.env),
            cwd=work,
            ranks=[self._compose_rank_order(host, place, work) for place in host.ranks],
            checkpoints=list(patterns_of(self.options.checkpoints)),
            machinefile=self.plan.machinefile,
            store_port=self.plan.master_port,
            secret=bool(self.options.secret_env),
            hub=first.host,
            data=list(self.data.get(name, ())),
            modules=self._choose_rank_modules(),
            run=self.compose_hub_order() if host is first else None,
            restart_plan=self.restart_plans[name].document() if self.restart_plans else None,
            keys=dict(self.keys),
            **_copy_same_options(
                StartOrder, self.options, "checkpoints", "data", "env", "ranks", "root"
            ),
        )

    def _choose_rank_modules(self) -> dict[str, str]:
        """Return the modules that each rank's Python imports before the script: name -> text."""
        options = self.options
        names = ["python_exit"] + ["half_gradients"] * (options.compress != "off")
        names += ["step_meter"] if options.trial else []
        names += ["ddp_bucket"] if options.trial or BUCKET in options.env else []
        offline = any("HF_HUB_OFFLINE" in dict(host.rank_env) for host in self.plan.hosts)
        names += ["offline_datasets"] if offline else []
        site = rank_module("rank_site")
        names += [] if options.no_inspect else ["thread_waits", "rank_groups"]
        return {"sitecustomize": site, **{name: rank_module(name) for name in names}}

    def compose_hub_order(self) -> HubOrder:
        """Return what the hub needs to know about all hosts."""
        row = mpi.FLAVOURS.get(self.plan.mpi)
        ports = self.options.ports
        names = MpiNames(sorted(row.daemons), sorted(row.dropped), row.own_names) if row else None
        return HubOrder(
            hosts=[self.describe_host(h) for h in self.plan.hosts],
            mpirun=list(self.plan.mpirun),
            mpi=names,
            grace=INTERRUPT_GRACE,
            address=self.plan.master_addr,
            ports=[ports[0], port_plan.reserved_ports(ports)[0] - 1] if ports else None,
            shown=self.describe_plan().document(),
            inputs=self.inputs.of_all.document() if self.inputs.of_all else {},
            has_keepers=self.options.kept,
            **_copy_same_options(HubOrder, self.options, "ports"),
        )

    def describe_plan(self) -> ShownPlan:
        """Return the plan for commands that attach."""
        return shown_plan.show_plan(self.plan).replace(host_timeout=self.options.host_timeout)

    def describe_host(self, host: HostPlan) -> HostOfRun:
        to = self.reached.get(host.host, Host(host.host))
        return HostOfRun(
            host=host.host,
            label=host.label,
            prefix=host.prefix,
            nic=host.nic,
            mpi_bin=host.mpi_bin,
            ranks=[place.rank for place in host.ranks],
            starter=list(rank_starter_command(host)) if not self.plan.mpi else [],
            address=to.address or to.name,
            groups=list(to.groups),
        )

    def _compose_rank_order(self, host: HostPlan, place: RankPlace, work: str) -> RankOrder:
        path = posixpath.normpath(posixpath.join(work, self.resumed)) if self.resumed else ""
        words = resume_words(self.options.resume_arg, path)
        return RankOrder(
            rank=place.rank,
            local_rank=place.local_rank,
            cpus=list(place.cpus),
            node=place.node,
            env={
                **rank_variables.compose_rank_variables(self.plan, host, place),
                **({"IPEXCTL_LOOK": "0"} if self.options.no_inspect else {}),
                **({"IPEXCTL_CHECKPOINT": path} if path else {}),
                **self.options.secret_env,
            },
            argv=[f"{host.prefix}/bin/python3", *self.plan.argv, *words],
        )


def _copy_same_options(kind: type[Message], options: RunOptions, *different: str) -> dict[str, Any]:
    """Return the options that hosts get as they are: those with the name of a field of the order.
    `different`: fields with such a name whose value is another one."""
    names = kind.__annotations__.keys() - different
    return {name: value for name, value in vars(options).items() if name in names}


# --- with --restarts ------------------------------------------------------------------------------


def compose_restart_plans(
    first: Orders,
    nodes: Sequence[PlannedHost],
    work: Mapping[str, tuple[str, str]],
    orders_on: Callable[..., Orders],
    queued: float = 0.0,
) -> dict[str, RestartPlan]:
    """Return what each host's keeper is told. `first`: orders of the first attempt; `nodes`: the
    hosts that it may have, then the spares; `orders_on`: returns the orders on some nodes, that of
    rank 0 first, with so many ranks on each if that is given. `work`: where ranks start, and the
    mark that this folder has on all hosts that share it. `queued`: when the run was queued.
    """
    orders = orders_on(nodes)
    options, counts = orders.options, [len(host.ranks) for host in first.plan.hosts]
    peers = {
        node.host.name: choose_host_address(node) if nodes[1:] else first.plan.master_addr
        for node in nodes
    }
    restart_plan = RestartPlan(
        run_id=orders.run_id,
        hosts=[node.host.name for node in nodes],
        first=list(first.plan.candidates) or [host.host for host in first.plan.hosts],
        ranks=counts,
        places=[
            (node.host.name, peers[node.host.name], node.prepared.keeper_port)
            for node in nodes[:VOTERS]
        ],
        restarts=options.restarts,
        least=len(counts) if options.min_hosts is None else options.min_hosts,
        lease=options.host_timeout,
        kept=bool(options.checkpoints),
        without=options.without_checkpoint,
        queued=queued,
        returns=options.wait_for_hosts,
    )

    def compose(ranks: int | None = None) -> list[RestartHost]:
        return list(
            _compose_host_plans(nodes, work, partial(orders_on, ranks=ranks), counts, peers)
        )

    usual = compose()
    sizes = {*counts} - {len(plan.asked.ranks) for plan in usual} if options.ppn else ()
    of_voters = VoterPlan(
        **vars(restart_plan),
        common=_compose_restart_common(orders, first.resumed),
        host_plans={plan.asked.host: plan for plan in usual},
        sized_plans=[plan for ranks in sizes for plan in compose(ranks)],
    )
    voters = [place[0] for place in restart_plan.places]
    return {name: of_voters if name in voters else restart_plan for name in work}


def _compose_host_plans(
    nodes: Sequence[PlannedHost],
    work: Mapping[str, tuple[str, str]],
    orders_on: Callable[[Sequence[PlannedHost]], Orders],
    counts: Sequence[int],
    peers: Mapping[str, str],
) -> Iterator[RestartHost]:
    """Yield the plan of each host. `counts`: the ranks on each host of the first attempt; a run on
    one host uses no network."""
    everywhere = orders_on(nodes)
    for host, node in zip(everywhere.plan.hosts, nodes, strict=True):
        others = [other for other in nodes if other is not node] if counts[1:] else []
        leads = orders_on([node, *others])
        alone = leads.plan.hosts[0] if not others else host
        orders = everywhere if others else leads
        yield _compose_host_plan(alone, leads.plan, orders, work[host.host], peers[host.host])


def _compose_restart_common(orders: Orders, resumed: str) -> RestartCommon:
    return RestartCommon(
        run_id=orders.run_id,
        about=orders.about,
        of_all=orders.compose_hub_order(),
        shown=orders.describe_plan().replace(master=("", 0), hosts=()),
        varies=rank_variables.VARIES,
        resume=list(resume_words(orders.options.resume_arg, "{checkpoint}")),
        resumed=resumed,
    )


def _compose_host_plan(
    host: HostPlan, lead: LaunchPlan, orders: Orders, work: tuple[str, str], peer: str
) -> RestartHost:
    """Return what one host is told regardless of the other hosts."""
    cwd, mark = work
    mpirun = [N if before == "-n" else word for before, word in pairwise(("", *lead.mpirun))]
    return RestartHost(
        asked=orders.compose_start_order(host.host, cwd).replace(host=host.host, run=None, keys={}),
        work=mark or host.host,
        row=orders.describe_host(host),
        mpirun=mpirun,
        line=machinefile_text([host], lead.mpi),
        address=lead.master_addr,
        port=lead.master_port,
        peer=peer,
        shown=shown_plan.show_host(host),
    )
