"""Run what plays do from Python, without YAML, on the hosts of an inventory.

    from ipexctl.api import Cluster, Install, Run, Sh

    with Cluster(hostfile="hosts") as cluster:
        cluster.do(Install(torch="2.13"))
        cluster.do(Run("train.py", ppn=2), on="node0[1-4]")
        for name, connection in cluster.connections().items():    # fabric.Connection
            connection.run("uptime")
        run = cluster.start("train.py", ppn=2)    # it continues on its hosts
        run.wait()

Each step of a play is a frozen dataclass here; `do` raises StepFailed if one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from ipexctl.base.located_errors import Bad
from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import Scalar
from ipexctl.doctor.doctor import DoctorOptions, examine_hosts
from ipexctl.doctor.report.report import Report
from ipexctl.errors import InputError, IpexctlError
from ipexctl.facts.facts import Facts
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.ssh.paramiko_transport import SshTransport
from ipexctl.machines.target import ROOT, Target, read_inventory
from ipexctl.notebook.run_handle import RunContinues, RunHandle, RunList
from ipexctl.play.host_batch import PlayListener
from ipexctl.play.play import run_play
from ipexctl.play.play_files import read_play_file
from ipexctl.play.steps import all_steps
from ipexctl.play.steps.command_steps import Assert, Sh, Wait
from ipexctl.play.steps.file_steps import Copy, File, Get, Line
from ipexctl.play.steps.fleet_steps.ansible_step import Ansible
from ipexctl.play.steps.fleet_steps.data_step import Data
from ipexctl.play.steps.fleet_steps.doctor_step import Doctor
from ipexctl.play.steps.fleet_steps.environment_steps import Env, Install, Prune
from ipexctl.play.steps.fleet_steps.reboot_step import Reboot
from ipexctl.play.steps.fleet_steps.run_steps import Fetch, Run
from ipexctl.play.steps.system_steps import Package, Service, Sysctl, User
from ipexctl.play.text.play_options import PlayOptions
from ipexctl.play.text.play_outcome import PlayReport, State, StepOutcome
from ipexctl.play.text.play_reader import read_play
from ipexctl.play.text.play_values import Play, PlayStep
from ipexctl.play.text.step_schema import Code, HostPattern, S, Seconds, Step, unknown_argument

__all__ = [
    "Ansible",
    "Assert",
    "Cluster",
    "Code",
    "Copy",
    "Data",
    "Doctor",
    "Env",
    "Facts",
    "Fetch",
    "File",
    "Get",
    "Host",
    "Install",
    "IpexctlError",
    "Line",
    "Package",
    "PlayReport",
    "Prune",
    "Reboot",
    "Report",
    "Run",
    "RunContinues",
    "RunHandle",
    "Seconds",
    "Service",
    "Sh",
    "State",
    "Step",
    "StepFailed",
    "StepOutcome",
    "Sysctl",
    "User",
    "Wait",
]
_HERE = Place("a program", 1, 1)


class StepFailed(IpexctlError):
    """A step failed; `outcomes` has every host, the message is that of the first that failed."""

    slug = "step-failed"

    def __init__(self, outcomes: Mapping[str, StepOutcome]) -> None:
        bad = [outcome for outcome in outcomes.values() if outcome.state.stops]
        first, more = bad[0], f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        what = f"{first.host}: {first.step.title}: {first.detail}{more}"
        super().__init__(what, why=first.why, hint=first.hint)
        self.outcomes = outcomes


class Cluster:
    """Hosts by name, of a hostfile, or the controller. Host keys are verified as by commands."""

    def __init__(
        self,
        *hosts: str,
        hostfile: str | Path | None = None,
        ssh_config: str | Path | None = None,
        limit: Sequence[str] = (),
        exclude: Sequence[str] = (),
        root: str = ROOT,
        sudo_password: str = "",
        say: Callable[[str, str], None] = lambda host, line: None,
    ) -> None:
        """Choose the hosts. `say` gets the lines of steps with their host, "" for all."""
        self.target = Target(
            Path(hostfile) if hostfile else None,
            hosts,
            Path(ssh_config) if ssh_config else None,
            limit=tuple(limit),
            exclude=tuple(exclude),
        )
        self.root = root
        self.inventory: Inventory = read_inventory(self.target)
        self._password, self._say = sudo_password, say
        self._ssh: SshTransport | None = None

    @classmethod
    def from_settings(cls, **arguments: Any) -> Cluster:
        """Use the hosts of ipexctl.toml, as the commands do. `arguments`: others of Cluster."""
        from ipexctl.cli.options import make_target
        from ipexctl.local.settings import load_settings, option_defaults

        target = make_target(ssh_config=None, root=ROOT)
        root = option_defaults(load_settings(), "").get("root", ROOT)
        reached = {"hostfile": target.hostfile, "ssh_config": target.ssh_config, "root": root}
        return cls(*target.hosts, **{**reached, **arguments})

    @property
    def hosts(self) -> tuple[Host, ...]:
        return self.inventory.hosts

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that were handed out."""
        if self._ssh:
            self._ssh.close()
            self._ssh = None

    def facts(self) -> dict[str, Facts]:
        """Return the facts of the hosts that answered. Raises the first failure if none did."""
        with Fleet(self.target, self.root, self.inventory) as fleet:
            found = fleet.map_hosts(lambda h: probe_facts(fleet.connect(h), fleet.root_of(h)))
            if not found and fleet.failures:
                down = fleet.failures[0]
                raise IpexctlError(down.what, why=down.why, hint=down.hint)
        return {host.name: facts for host, facts in found.items()}

    def doctor(self, level: str = "quick") -> Report:
        fleet = Fleet(self.target, self.root, self.inventory)
        return examine_hosts(fleet, DoctorOptions(level))

    def install(self, **arguments: Any) -> dict[str, StepOutcome]:
        """Install, as `do(Install(...))` does."""
        return self.do(_step(Install, arguments))

    def run(self, script: str, **arguments: Any) -> dict[str, StepOutcome]:
        """Run a script, as `do(Run(script, ...))` does."""
        return self.do(_step(Run, {"script": script, **_in_words(arguments)}))

    def start(self, script: str, **arguments: Any) -> RunHandle:
        """Start a run like `ipexctl run -d`: returns once all ranks have started; the run
        continues. The options under [run] in ipexctl.toml are used if `arguments` lacks them."""
        from ipexctl.local.settings import load_settings, option_defaults
        from ipexctl.play.run_lines import RunLines
        from ipexctl.run.run import start_and_follow_run
        from ipexctl.run.watch.run_watchers import count_interrupts

        usual = option_defaults(load_settings(), "run").items()
        given = {k: v for k, v in usual if k in ("compress", "restarts", "checkpoints")} | arguments
        step = _step(Run, {"script": script, **_in_words(given), "detach": True})
        with _as_input_error():
            step.check()
        options = step.run_options(self.root, self._say)
        with count_interrupts() as interrupts:
            begun = start_and_follow_run(self.target, options, RunLines(self._say), interrupts)
        if getattr(begun, "ended_by", "") == "interrupted":
            raise KeyboardInterrupt
        return RunHandle(self.target, begun.run_id, self.root)

    def runs(self, *, every: bool = False) -> RunList:
        """Return the active runs, whichever machine started them; `every`: all of them."""
        from ipexctl.run.jobs.ps import list_runs

        return RunList(self.target, list_runs(self.target, self.root, every=every).runs, self.root)

    def find_run(self, run: str = "@last") -> RunHandle:
        """Find a run by its name, its ID or the first characters of it."""
        from ipexctl.machines.fleet import Fleet
        from ipexctl.run.jobs.ps import find_run

        with Fleet(self.target, self.root) as fleet:
            return RunHandle(self.target, find_run(fleet, run).first_id, self.root)

    def last_run(self) -> RunHandle:
        """Return your newest run of the project in the current folder."""
        return self.find_run()

    def do(
        self, step: Step, *, on: str = "", sudo: bool = False, check: bool = False
    ) -> dict[str, StepOutcome]:
        """Run one step on all hosts, or on those of the pattern `on`. Raises StepFailed."""
        with _as_input_error():
            step.check()
        node = Scalar("", _HERE, null=True)
        given = PlayStep(1, step.keyword, node, _HERE, on=HostPattern(on), sudo=sudo, ready=step)
        report = self._play(Play("a program", (given,)), check, {})
        outcomes = {outcome.host: outcome for outcome in report.outcomes}
        if report.failures:
            raise StepFailed(outcomes)
        return outcomes

    def play(
        self, file: str | Path, *, check: bool = False, variables: Mapping[str, str] | None = None
    ) -> PlayReport:
        """Run the steps of a file, or of a shipped play. The report contains the failures."""
        text, source = read_play_file(str(file))
        return self._play(read_play(text, source, all_steps()), check, dict(variables or {}))

    def _play(self, play: Play, check: bool, variables: dict[str, str]) -> PlayReport:
        listener = PlayListener(
            lambda h, s: None, lambda h, s, text: self._say(h, text), lambda outcome: None
        )
        options = PlayOptions((), (), variables, check, root=self.root, password=self._password)
        return run_play(play, self.target, options, listener)

    def connections(self) -> dict[str, Any]:
        """Return a fabric.Connection to each host, open until `close`. Raises if one fails."""
        return {host.name: self.connection(host.name) for host in self.hosts}

    def connection(self, name: str) -> Any:
        """Return a fabric.Connection to one host."""
        if self._ssh is None:
            remote = tuple(host for host in self.hosts if not host.local)
            self._ssh = SshTransport(remote, self.target.ssh_config, self.target.secrets)
            self._ssh.unlock(remote)
        return self._ssh.fabric_connection(self.inventory[name], self.target.connect_timeout)


def _step(kind: type[S], given: Mapping[str, Any]) -> S:
    """Return the step. Raises InputError for an argument that it does not have."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    with _as_input_error():
        for name in given:
            if name not in known:
                raise unknown_argument(kind, name)
    return kind(**given)


@contextmanager
def _as_input_error() -> Iterator[None]:
    try:
        yield
    except Bad as e:
        raise InputError(e.what, why=e.why, hint=e.hint, slug=e.slug) from None


def _in_words(arguments: dict[str, Any]) -> dict[str, Any]:
    """Convert `args` of the script to words of its command line: numbers become text, and a single
    text is split as a shell does."""
    import shlex

    args = arguments.get("args", ())
    words = shlex.split(args) if isinstance(args, str) else map(str, args)
    return {**arguments, "args": tuple(words)} if args else arguments
