"""Collect a run's inputs for its journals, for reports and to compare runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ipexctl.base.secret_mask import SecretMask
from ipexctl.common.run_inputs import GitState, HostInputs, RunInputs
from ipexctl.facts import usable_cores
from ipexctl.project.files.project_files import Tree
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import HostPlan, PlannedHost

MOST_FILES = 500  # files whose hashes are kept, code and settings first
CODE = (".py", ".sh", ".toml", ".yaml", ".yml", ".json", ".cfg", ".ini", ".txt")
FINDINGS = 20  # of the preflight
LONGEST = 200  # characters of a value


@dataclass(frozen=True)
class Inputs:
    """The inputs. `of_all`: kept by the first host; `hosts`: what each host keeps about itself."""

    of_all: RunInputs | None
    hosts: Mapping[str, HostInputs]


def collect_run_inputs(
    plan: Sequence[HostPlan],
    nodes: Iterable[PlannedHost],
    sent: Tree | None,
    data: Mapping[str, str],
    findings: Sequence[tuple[str, str, str]] = (),
    git: GitState | None = None,
) -> Inputs:
    """Collect the inputs. `sent`: None with --no-sync. `data`: the version of each dataset, by
    content. `findings`: id, hosts and text of the findings of the preflight."""
    by_host = {node.host.name: node for node in nodes}
    first = by_host[plan[0].host].prepared
    of_all = RunInputs(
        files=_file_hashes(sent) if sent else None,
        tree=sent.key if sent else "",
        environment=first.environment.key if first.environment else "",
        packages=dict(sorted(first.packages)),
        data=dict(sorted(data.items())),
        findings=tuple(
            (slug[:LONGEST], hosts[:LONGEST], text[:LONGEST])
            for slug, hosts, text in findings[:FINDINGS]
        ),
        git=git,
    )
    return Inputs(of_all, {host.host: _host_inputs(host, by_host[host.host]) for host in plan})


def _file_hashes(tree: Tree) -> dict[str, str]:
    files = sorted(tree.files, key=lambda f: (not f.path.endswith(CODE), f.path.count("/"), f.path))
    return {f.path[:LONGEST]: f.sha256[:16] for f in files[:MOST_FILES]}


def _host_inputs(plan: HostPlan, node: PlannedHost) -> HostInputs:
    facts, power = node.facts, node.facts.condition.power
    nic = next((nic for nic in facts.net.nics if nic.name == plan.nic), None)
    reasons = dict(plan.reasons)
    variables = dict((*plan.rank_env, *((k, v) for k, v in plan.env if k in reasons)))
    return HostInputs(
        cpu=facts.cpu.model_name,
        cores=len(usable_cores.list_cores(facts.cpu)),
        quota=facts.cpu.quota,
        governors=power.governors,
        max_khz=power.max_khz,
        turbo=power.turbo,
        memory=facts.mem.limit or facts.mem.total,
        thp=facts.condition.kernel.thp,
        kernel=facts.kernel,
        load=next(iter(facts.condition.load.average), None),
        speed=nic.speed if nic else None,
        sockets=plan.sockets,
        variables={
            name: _shown_value(name, value.replace(plan.prefix + "/", "ENV/"))
            for name, value in variables.items()
        },
        reasons={name: reasons[name] for name in variables if name in reasons},
    )


def _shown_value(name: str, value: str) -> str:
    shown: str = SecretMask().mask_document({name: value})[name]
    return shown[:LONGEST]
