"""shell: log in to a host as ipexctl reaches it, with the installed environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from ipexctl.base import quoting
from ipexctl.base.located_errors import nearest_word
from ipexctl.errors import HostFailed, InputError
from ipexctl.facts.env_choice import asked_env
from ipexctl.facts.other_runs_facts import LiveRun
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.environment import user_umask
from ipexctl.local.project_lock import choice_here
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.suggested_commands import hint_install, target_options
from ipexctl.machines.target import Target, all_hosts
from ipexctl.run.plan import launch_plan

Env = Sequence[tuple[str, str]]
_PREPENDED = ("PATH", "LD_LIBRARY_PATH")
# sshd reports a signal that ended a process in its own way; a shell makes it an exit code.
# The shell survives Ctrl-C, which is for the command, and prints nothing itself.
_AS_CHILD = "trap : INT QUIT; exec 3>&2 2>/dev/null; (exec 2>&3 3>&-; exec %s); exit $?"
# Other shells do not accept `-l` with `-c`: they start without a login's profile.
_LOGIN_SHELLS = "*/bash|*/zsh|*/ksh|*/dash|*/ash|*/sh"


def run_shell(
    target: Target,
    name: str,
    command: tuple[str, ...],
    root: str,
    note: Callable[[str], None],
) -> int:
    """Run `command` on the host, or a login shell without one, and return its exit code."""
    check_terminal(target, name, command)
    host = find_host(target, name)
    with Fleet(target, root, Inventory((host,), name)) as fleet:
        line = remote_line(installed_variables(fleet, host, note, told=not command), command)
        return at_host(fleet, host, line)


def check_terminal(target: Target, name: str, command: tuple[str, ...]) -> None:
    """Raise InputError for a shell without a terminal."""
    if not (command or is_terminal()):
        raise InputError(
            "a shell needs a terminal, but stdin or stdout is not one",
            hint=f"{quoting.quote(('ipexctl', 'shell', name, *_login_options(target)))} -- COMMAND",
            slug="no-terminal",
        )


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def at_host(fleet: Fleet, host: Host, line: str) -> int:
    """Run `line` on the host with our stdin, stdout and stderr, and return its exit code."""
    if not host.local:
        return fleet.attend(host, line, pty=is_terminal())
    code = subprocess.call(("/bin/sh", "-c", line), umask=user_umask())
    return code if code >= 0 else 128 - code


def _login_options(target: Target) -> tuple[str, ...]:
    return target_options(replace(target, hosts=()))


def find_host(target: Target, name: str) -> Host:
    """Return the host of that name in the hostfile; without a file, only the name is known."""
    hosts = all_hosts(target).hosts
    matches = [host for host in hosts if host.name == name or not target.hostfile]
    if not matches:
        near = nearest_word(name, [host.name for host in hosts])
        command = quoting.quote(("ipexctl", "shell", near, *_login_options(target)))
        raise InputError(
            f"there is no host {name} in {target.hostfile}",
            hint=command if near else f"available hosts: {fold(host.name for host in hosts)}",
            slug="host-unknown",
        )
    if len(matches) != 1:
        raise InputError(
            f"{name}: a shell opens on one host",
            hint=f"ipexctl shell {matches[0].name}",
            slug="one-host-only",
        )
    return matches[0]


def installed_variables(
    fleet: Fleet, host: Host, note: Callable[[str], None], *, told: bool = False
) -> Env:
    """Return the variables of the environment in use; none if nothing is installed. `told`: notes
    report that environment, and the active runs on the host."""
    agent = fleet.connect(host)
    try:
        if agent.hello.kind != "python":
            note(f"{host.name}: no Python 3.6 or newer, so nothing of ipexctl is installed there")
            return ()
        if told:
            answer = agent.call("facts.read_other_runs.list", {"root": fleet.root_of(host)}).done
            for run in answer.rows("runs", LiveRun):
                note(f"{host.name}: {run.title} is running here: {run.usage_text}")
        choice = choice_here()
        request = {"root": fleet.root_of(host), "run_id": "shell", **asked_env(choice)}
        with hint_install(fleet.target, choice, fleet.root):
            reply = agent.call("run.run_environment.find", request, total=60.0).done
        prepared = launch_plan.read_prepared(reply, choice)
        if told and prepared.environment:
            note(str(prepared.environment))
        return prepared.command_env
    except HostFailed as e:
        if e.slug != "not-installed":
            raise
        note(f"{e.what}; this is the host's own environment")
        return ()
    finally:
        fleet.disconnect(host)


def remote_line(env: Env, command: tuple[str, ...]) -> str:
    """Return one line for the account's login shell: sh, csh and fish read it alike."""
    if command:
        line = "; ".join([*_export_commands(env), _AS_CHILD % " ".join(map(_sh_word, command))])
        return quoting.quote(("exec", "/bin/sh", "-c", line))
    run = quoting.quote(("-c", _interactive_command(env)))
    start = (
        f'case "$SHELL" in {_LOGIN_SHELLS}) exec "$SHELL" -l {run};; *) exec /bin/sh {run};; esac'
    )
    return quoting.quote(("exec", "/bin/sh", "-c", start))


def _interactive_command(env: Env) -> str:
    """Start the account's own shell. Its start files may reset PATH, so ours is set after them: by
    a file that replaces them, calls them, and removes itself."""
    if not env:
        return 'exec "${SHELL:-/bin/sh}" -i'
    sets = "; ".join(_export_commands(env))
    cases = "".join(
        f'x{name}) printf "%s\\n" {_sh_word(text.replace("SETS", sets))} > "$IPEXCTL_RC/{file}"; '
        f'{start} "$SHELL" {options};; '
        for name, file, text, start, options in _START_FILES
    )
    return (
        'IPEXCTL_RC="$(mktemp -d 2>/dev/null)"; export IPEXCTL_RC; '
        f'case "${{IPEXCTL_RC:+x}}${{SHELL##*/}}" in {cases}'
        f"xfish) {_GONE}; {sets}; "
        'IPEXCTL_PATH="$PATH"; export IPEXCTL_PATH; '
        f'exec "$SHELL" -i -C {_sh_word(_FISH)};; '
        f'*) {sets}; exec "${{SHELL:-/bin/sh}}" -i;; esac'
    )


_GONE = 'rm -rf "$IPEXCTL_RC"; unset IPEXCTL_RC'
_FISH = "set -gx PATH (string split : -- $IPEXCTL_PATH) $PATH; set -e IPEXCTL_PATH"
# shell, its start file, the content, and the shell's option to read it
_START_FILES = (
    (
        "bash",
        "rc",
        f"if [ -f ~/.bashrc ]; then . ~/.bashrc; fi; SETS; {_GONE}",
        "exec",
        '--rcfile "$IPEXCTL_RC/rc" -i',
    ),
    (
        "zsh",
        ".zshrc",
        f'ZDOTDIR="$IPEXCTL_ZDOTDIR"; unset IPEXCTL_ZDOTDIR; '
        f'if [ -f "$ZDOTDIR/.zshrc" ]; then . "$ZDOTDIR/.zshrc"; fi; SETS; {_GONE}',
        'IPEXCTL_ZDOTDIR="${ZDOTDIR:-$HOME}"; ZDOTDIR="$IPEXCTL_RC"; '
        "export IPEXCTL_ZDOTDIR ZDOTDIR; exec",
        "-i",
    ),
    *(
        (
            name,
            "rc",
            f'ENV="$IPEXCTL_ENV"; unset IPEXCTL_ENV; '
            f'if [ -f "$ENV" ]; then . "$ENV"; fi; SETS; {_GONE}',
            'IPEXCTL_ENV="$ENV"; ENV="$IPEXCTL_RC/rc"; export IPEXCTL_ENV ENV; exec',
            "-i",
        )
        for name in ("sh", "dash", "ash", "ksh")
    ),
)


def _sh_word(text: str) -> str:
    """Quote for sh inside another shell's quotes, where csh would still expand a `!`."""
    return quoting.quote((text,)).replace("!", '\'"$(printf "\\041")"\'')


def _export_commands(env: Env) -> list[str]:
    """Return the settings; in an environment, PYTHONHOME and PYTHONPATH must be unset."""
    return [*(["unset PYTHONHOME PYTHONPATH"] if env else []), *map(_assign_variable, env)]


def _assign_variable(pair: tuple[str, str]) -> str:
    name, value = pair
    suffix = f'"${{{name}:+:${name}}}"' if name in _PREPENDED else ""
    return f"{name}={_sh_word(value)}{suffix}; export {name}"
