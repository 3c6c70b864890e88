"""install --use-env: make an existing environment of the hosts the one that `run` uses."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

from ipexctl.base.host_outcome import HostResult, HostState, PerHost
from ipexctl.common.install_answers import EnvChanged, EnvState, ExistingEnv
from ipexctl.errors import HostFailed, InputError
from ipexctl.facts.mpi_install_facts import Mpi
from ipexctl.install import fleet_locks
from ipexctl.install.host_steps import EnvOnHost, state_of
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.local.project_lock import choice_here, choose_instead
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack import env_match, mpi
from ipexctl.stack.env_match import EnvLook
from ipexctl.stack.selection import IPEX
from ipexctl.stack.version_table import END_OF_LIFE
from ipexctl.terminal.progress import HostProgress, ProgressStep


@dataclass(frozen=True)
class UseEnvReport(PerHost):
    """Result of --use-env. `looks`: reports of the hosts that have the environment."""

    path: str
    key: str
    looks: tuple[EnvLook, ...]
    recaps: tuple[HostResult, ...] = ()
    seconds: float = 0.0
    check: bool = False


def use_env(
    target: Target, path: str, root: str, progress: HostProgress, *, system_mpi: bool, check: bool
) -> UseEnvReport:
    """Use an environment. `system_mpi`: use the hosts' own mpirun if the environment has none.
    Raises InputError if the hosts' environments do not match."""
    began, choice = time.monotonic(), choice_here()
    with Fleet(target, root) as fleet:
        looks = fleet.map_hosts(lambda host: _inspect_env(fleet, host, path, progress))
        report = _judge_envs(path, tuple(looks.values()))
        if looks:
            progress.say(_found_text(report))

        def say(host: str, text: str) -> None:
            progress.step(ProgressStep(host, text))

        def one(host: Host) -> HostResult:
            state = state_of(fleet, host, report.key, choice.project)
            if check:
                return _predict_use(host, state, report.key)
            agent, project = fleet.agents[host], choice.project
            steps = _UseOnHost(agent, state.root, report.key, project, progress.step)
            return steps.use_env(state, path, looks[host], system_mpi=system_mpi)

        changes = looks and not check
        with fleet_locks.hold_locks(fleet, choice.project, say) if changes else nullcontext():
            recaps = fleet.recaps(fleet.map_hosts(one))
    if not check:
        choose_instead(choice, report.key, "install --use-env")
        fleet.remember_recaps(recaps)
    return replace(report, recaps=recaps, seconds=time.monotonic() - began, check=check)


def _inspect_env(fleet: Fleet, host: Host, path: str, progress: HostProgress) -> EnvLook:
    progress.step(ProgressStep(host.name, "connecting"))
    if fleet.connect(host).hello.kind != "python":
        raise HostFailed(
            f"{host.name}: no Python 3.6 or newer on this host",
            hint="ipexctl doctor",
            slug="no-python",
        )
    progress.step(ProgressStep(host.name, "looking"))
    answer = fleet.call(host, "install.existing_env.inspect", path=path)
    look = EnvLook(host.name, answer.read(ExistingEnv))
    if not look.torch:
        raise HostFailed(f"{host.name}: there is no torch in {look.env.path}", slug="no-torch")
    return look


def _judge_envs(path: str, looks: tuple[EnvLook, ...]) -> UseEnvReport:
    if different := env_match.find_disagreement(looks):
        raise InputError(
            f"the environments at {path} are not the same on all hosts",
            why=f"{different}; ranks exchange objects serialized by Python and torch",
            hint="ipexctl install   # makes the same one on all hosts",
            slug="envs-differ",
        )
    return UseEnvReport(path, env_match.key_of(path), looks)


def _found_text(report: UseEnvReport) -> str:
    looks = report.looks
    python, n = ".".join(map(str, looks[0].minor)), len(looks)
    hosts = f"{n} host{'s' * (n != 1)} ({fold(tuple(look.host for look in looks))})"
    text = f"{looks[0].title}, Python {python}, in {report.path} on {hosts}: nothing is installed"
    return text + f"\n  {END_OF_LIFE}" * bool(looks[0].version(IPEX))


def _predict_use(host: Host, state: EnvState, key: str) -> HostResult:
    if state.built and state.current == key and not state.changed:
        return HostResult(host.name, HostState.OK, "already uses it")
    suffix = f", uses {state.current}" if state.current else ""
    return HostResult(host.name, HostState.CHANGED, f"would use it{suffix}")


class _UseOnHost(EnvOnHost):
    """Links, proves and switches to the environment."""

    def use_env(self, state: EnvState, path: str, look: EnvLook, *, system_mpi: bool) -> HostResult:
        """Link the environment, prove it unless it was proved before, and make it current."""
        linked = self.call("install.existing_env.link", path=path).read(EnvChanged).changed
        starter, system = self._find_mpi(look, system_mpi=system_mpi)
        ready = state.built and not linked and self._is_proved(system=system)
        if ready and state.current == self.key:
            if not state.asked:
                self.note_project()
            return self.make_recap(HostState.OK, "nothing to do")
        detail = "tested before" if ready else self._prove_env(look, starter, system=system)
        self.make_current()
        notes = () if starter else ("no mpirun: `run` starts the ranks itself",)
        return self.make_recap(HostState.CHANGED, detail, notes=notes)

    def _is_proved(self, *, system: bool) -> bool:
        own_mpi = mpi.SYSTEM if system else ""
        answer = self.call("install.env_marks.state", mpi=own_mpi, project=self.project.id)
        return answer.read(EnvState).proved

    def _prove_env(self, look: EnvLook, starter: Mpi | None, *, system: bool) -> str:
        env = mpi.env_vars(self.prefix, starter)
        with_it = f" with {starter}" if starter and system else ""
        return self.prove(starter, env, env_match.env_modules(look), system=system) + with_it

    def _find_mpi(self, look: EnvLook, *, system_mpi: bool) -> tuple[Mpi | None, bool]:
        """Return the MPI for its ranks, and whether to look for it at each run."""
        if wheel := mpi.in_packages(look.env.packages, self.prefix):
            return wheel, False
        if not (look.env.mpirun or system_mpi):
            return None, False
        return self.own_mpi(prefix=self.prefix), True
