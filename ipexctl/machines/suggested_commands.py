"""Suggested commands with the user's own options, so that they can be copied and run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ipexctl.base import quoting, retry_command
from ipexctl.base.host_outcome import HostDown
from ipexctl.base.typed_command import Typed
from ipexctl.errors import HostFailed, IpexctlError
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.inventory.hostfile_text import fold
from ipexctl.local.project_lock import lock_here
from ipexctl.machines.agent import Agent
from ipexctl.machines.target import ROOT, Target

# The hosts do not know the hostfile, and the login knows one host only: their hints lack options.
# A command that names its hosts is left alone.
_OURS = re.compile(
    r"\bipexctl (install|doctor|trust|env (?:ls|diff|rm)|data (?:push|ls|rm)|ps(?: -a)?"
    r"|(?:attach|fetch|logs|stop|wait|rm) [\w@.-]+)(?![\w.-])(?: -H \S+(?!\S))?"
    r"(?!(?: [^\s;)#]+)* (?:-[fHFlx]|--root|--ask-pass)\b)"
)
_SSH = re.compile(r"(?:^|(?<=: ))(ssh|ssh-copy-id) (?!.*(?<!\S)-F )", re.MULTILINE)
_MOST_HINTS = 4


def target_options(target: Target) -> tuple[str, ...]:
    """Return the options for hosts and login as the user gave them, except ipexctl.toml's own."""
    configured = target.configured
    argv = ["-f", str(target.hostfile)] if target.hostfile and "hostfile" not in configured else []
    argv += ["-H", ",".join(target.hosts)] if target.hosts else []
    needed = target.ssh_config and "ssh_config" not in configured
    argv += ["-F", str(target.ssh_config)] if needed else []
    for option, patterns in (("-l", target.limit), ("-x", target.exclude)):
        argv += [word for pattern in patterns for word in (option, pattern)]
    return (*argv, "--ask-pass") if target.ask_pass else tuple(argv)


def suggest_command(target: Target, verb: str, root: str = ROOT) -> str:
    """Return `ipexctl VERB` for the same hosts."""
    options = target_options(target) if verb == "trust" else list_options(target, root)
    if verb.startswith("logs "):  # its -f is --follow
        options = tuple("--hostfile" if word == "-f" else word for word in options)
    return quoting.quote(("ipexctl", *verb.split(), *options))


def install_command(target: Target, choice: EnvChoice | None, root: str = ROOT) -> str:
    """Return `ipexctl install` for the lock in use, run from the folder of that lock."""
    if not choice or not choice.lock or lock_here() == Path(choice.lock):
        return suggest_command(target, "install", root)
    if target.hostfile:
        target = replace(target, hostfile=target.hostfile.absolute())
    if target.ssh_config:
        target = replace(target, ssh_config=target.ssh_config.absolute())
    cd = quoting.quote(("cd", str(Path(choice.shown).parent)))
    return f"{cd} && {suggest_command(replace(target, configured=frozenset()), 'install', root)}"


@contextmanager
def hint_install(target: Target, choice: EnvChoice | None, root: str = ROOT) -> Iterator[None]:
    """Hint at the right install command if a host lacks the environment; hosts do not know it."""
    try:
        yield
    except HostFailed as e:
        if e.slug == "not-installed":
            e.hint = install_command(target, choice, root)
        raise


def list_options(target: Target, root: str) -> tuple[str, ...]:
    transport = () if target.transport == "paramiko" else ("--transport", target.transport)
    usual = root == ROOT or "root" in target.configured
    return (*target_options(target), *transport, *(() if usual else ("--root", root)))


def spell_hint(text: str, target: Target, root: str = ROOT) -> str:
    """Return the hint with the user's options added to its ipexctl and ssh commands."""
    text = _OURS.sub(lambda match: suggest_command(target, match[1], root), text)
    if not target.ssh_config:
        return text
    config = quoting.quote(("-F", str(target.ssh_config)))
    return _SSH.sub(lambda match: f"{match[1]} {config} ", text)


def spelled_error(error: IpexctlError, target: Target, root: str = ROOT) -> IpexctlError:
    error.hint = spell_hint(error.hint, target, root)
    return error


def spelled_downs(downs: Sequence[HostDown], target: Target, root: str = ROOT) -> list[HostDown]:
    return [replace(down, hint=spell_hint(down.hint, target, root)) for down in downs]


def merged_hints(downs: Sequence[HostDown]) -> str:
    """Join the hints of several hosts, only the first few, and each line once."""
    hints = list(dict.fromkeys(down.hint for down in downs if down.hint))
    note = [f"# and {len(hints) - _MOST_HINTS} more like these"] if len(hints) > _MOST_HINTS else []
    lines = dict.fromkeys(line for hint in hints[:_MOST_HINTS] for line in hint.splitlines())
    return "\n".join([*lines, *note])


def retry_without(typed: Typed, hosts: Sequence[str]) -> str:
    """Return the command as it was typed, for the other hosts."""
    names = fold(hosts)
    command = retry_command.compose_retry_command(typed, (names,), None) if hosts else ""
    return f"{command}   # without {names}" if command else ""


def other_pythons(agents: Iterable[Agent]) -> Iterator[str]:
    """Yield a note for each host where another Python answers than the hostfile names."""
    for agent in agents:
        requested, path = agent.host.python, agent.hello.path
        used = (path, agent.hello.started)
        if requested and path and requested not in (*used, *(p.rpartition("/")[2] for p in used)):
            yield f"{agent.host.name}: python={requested} was asked for, but {path} is used"
