"""Run the user's own `ansible-playbook` as a process: none of its code is imported.

Ansible logs in with the ssh program. Each host gets the options of `--transport openssh`, so that
the same ssh_config, jump hosts and verified keys are used; an unknown key is refused.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path

from ipexctl.errors import InputError, NotHere
from ipexctl.inventory.hostfile_formats import render_inventory
from ipexctl.inventory.inventory import Inventory
from ipexctl.local.environment import environment, user_umask
from ipexctl.machines.ssh.openssh_transport import OpenSshTransport
from ipexctl.machines.target import Target
from ipexctl.quick_dataclass import dataclass

PROGRAM = "ansible-playbook"
_SHARED = ("-C", "-o", "ControlMaster=auto", "-o", "ControlPersist=60s")  # Ansible's own default
_SOCKETS = "c"  # of ssh connections; short, as the path of a socket is limited
_GRACE = 10.0  # seconds in which it, or one of its connections, has to end
_ENVIRONMENT = {
    "ANSIBLE_STDOUT_CALLBACK": "default",  # its recap is parsed
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_HOST_KEY_CHECKING": "True",
    "ANSIBLE_RETRY_FILES_ENABLED": "False",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Playbook:
    path: Path
    extra: Mapping[str, str]
    tags: Sequence[str] = ()
    skip_tags: Sequence[str] = ()
    check: bool = False
    pythons: Mapping[str, str] = field(default_factory=dict)  # by host, for those that name none


def run_playbook(
    playbook: Playbook, target: Target, hosts: Inventory, say: Callable[[str], None]
) -> int:
    """Run a playbook and return its exit code. Raises InputError and NotHere before it starts."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise NotHere(
            f"{PROGRAM} is not installed on this machine",
            why="ipexctl runs the installed program and does not include it",
            hint="python3 -m pip install ansible-core",
            slug="ansible-missing",
        )
    if not playbook.path.is_file():
        raise InputError(
            f"there is no playbook {playbook.path} in {Path.cwd()}", slug="playbook-missing"
        )
    if target.ask_pass:
        what = "--ask-pass cannot be combined with an ansible step"
        raise InputError(
            what,
            why="Ansible logs in with its own ssh",
            hint="ssh-copy-id HOST",
            slug="options-conflict",
        )
    with tempfile.TemporaryDirectory(prefix="ipexctl-ansible-") as folder:  # mode 0700
        inventory = _write_inventory(Path(folder), target, hosts, playbook.pythons)
        words = [
            program,
            "-i",
            str(inventory),
            "-e",
            f"@{_write_extra_variables(Path(folder), playbook)}",
        ]
        words += ["--check"] * playbook.check
        words += [word for tag in playbook.tags for word in ("--tags", tag)]
        words += [word for tag in playbook.skip_tags for word in ("--skip-tags", tag)]
        words += ["--", str(playbook.path)]
        with _end_shared_connections(Path(folder)):
            return _run_program(words, say)


def _run_program(words: list[str], say: Callable[[str], None]) -> int:
    """Run the program and return its exit code. Ctrl-C is passed on, with some seconds to end."""
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**environment(), **_ENVIRONMENT},
        umask=user_umask(),
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout
        try:
            for line in process.stdout:
                say(line.rstrip("\n"))
            return process.wait()
        except BaseException:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
            process.kill()
            raise


def _write_inventory(
    folder: Path, target: Target, hosts: Inventory, pythons: Mapping[str, str]
) -> Path:
    """Write the inventory, with a file of variables for each host."""
    inventory = folder / "hosts"
    inventory.write_text(render_inventory(hosts, "ansible").text)
    remote = tuple(host for host in hosts.hosts if not host.local)
    ssh = OpenSshTransport(remote, target.ssh_config) if remote else None
    for name in ("host_vars", _SOCKETS):
        (folder / name).mkdir()
    for number, host in enumerate(hosts.hosts):
        values = dict(host.vars)
        if not host.python and host.name in pythons:
            values["ansible_python_interpreter"] = pythons[host.name]
        sockets = f'"{str(folder).replace("%", "%%")}/{_SOCKETS}/{number}-%p-%r"'
        if ssh and not host.local:
            # ssh uses the first of two equal options: these stand before those of Ansible
            words = (*ssh.options(host, target.connect_timeout), *_SHARED, "-o")
            values["ansible_ssh_args"] = shlex.join((*words, f"ControlPath={sockets}"))
        (folder / "host_vars" / f"{host.name}.json").write_text(json.dumps(values))
    return inventory


def _write_extra_variables(folder: Path, playbook: Playbook) -> Path:
    """Write the extra variables to a file: every user of the controller could read arguments."""
    path = folder / "extra.json"
    path.write_text(json.dumps(dict(playbook.extra)))
    return path


@contextmanager
def _end_shared_connections(folder: Path) -> Iterator[None]:
    """End the shared connections together with the step."""
    try:
        yield
    finally:
        for socket in (folder / _SOCKETS).iterdir():
            words = ("ssh", "-o", f'ControlPath="{str(socket).replace("%", "%%")}"', "-O", "exit")
            with suppress(subprocess.TimeoutExpired):
                subprocess.run((*words, "host"), capture_output=True, timeout=_GRACE, check=False)
