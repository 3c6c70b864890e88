"""Ask `ssh -G` how to reach each host, once for hosts that get the same answer."""

from __future__ import annotations

import errno
import glob
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from ipexctl.errors import InputError, NotHere, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.local.bounded_read import read_file
from ipexctl.local.environment import environment
from ipexctl.machines.openssh import login_command
from ipexctl.machines.openssh.ssh_config import (
    DEFAULTS,
    Config,
    Me,
    SshSettings,
    for_another,
    included_files,
    parse_config,
    parse_jump,
    read_answer,
)

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
ASK_TIMEOUT = 20.0
MAX_JUMPS = 8
Hops = tuple[str, ...]  # `[user@]host[:port]` each, the nearest first


def current_user() -> Me:
    """Take the home folder from the user database, not from HOME, as OpenSSH does.

    A container may run as a user without an entry there; ssh itself then refuses to start.
    """
    env, uid = environment(), os.getuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        name = env.get("USER") or env.get("LOGNAME") or str(uid)
        return Me(name, env.get("HOME", "/"), uid, socket.gethostname(), dict(env), known=False)
    return Me(entry.pw_name, entry.pw_dir, uid, socket.gethostname(), dict(env))


class SshConfig:
    """The answers for the hosts of a command; ssh is asked only about names it has not answered."""

    def __init__(self, config_file: Path | None) -> None:
        self.me = current_user()
        self._file = config_file
        self._ssh = shutil.which("ssh") if self.me.known else None
        self._config = self._read_config()

    def answers(self, hosts: Sequence[Host]) -> dict[Host, SshSettings]:
        """Return one answer per host; the hostfile's user and port take precedence.

        The question for a host with an address names the address, as ssh would be given it.
        """
        questions = {host: self._make_question(host) for host in hosts}
        distinct = list(dict.fromkeys(questions.values()))
        if self._ssh is None:
            by_question = {host: self._answer_without_ssh(host) for host in distinct}
        else:
            by_question = self._ask_by_class(distinct)
        answers = {host: by_question[question] for host, question in questions.items()}
        named = {key: name for name in sorted(self.names()) for key in (name.lower(), name)}
        without = "" if self._file else None
        return {
            host: replace(
                answer,
                name=host.name,
                user=host.user or answer.user,
                port=host.port or answer.port,
                given=host,
                configured=named.get(host.name) or named.get(host.name.lower(), without),
                usual_user="" if answer.user in (self.me.user, host.user) else answer.user,
            )
            for host, answer in answers.items()
        }

    def names(self) -> tuple[str, ...]:
        """Return the hosts that have a `Host` line of their own, in its order."""
        return self._config.names

    def _make_question(self, host: Host) -> Host:
        """Return the question: only a name where only names decide, so that no host gets another's
        user or port. Elsewhere a `Match` may test the user, and ssh has to know it."""
        name = host.address or host.name
        return Host(name) if self._config.plain else replace(host, name=name)

    def _ask_by_class(self, hosts: Sequence[Host]) -> dict[Host, SshSettings]:
        """Ask ssh about one host of each class, and derive the answers for the others from it."""
        answers: dict[Host, SshSettings] = {}
        classes: dict[Hashable, Host] = {}
        for host in hosts:
            classes.setdefault(self._config.host_class(host), host)
        with ThreadPoolExecutor(8) as pool:
            firsts = tuple(classes.values())
            answers.update(zip(firsts, pool.map(self._ask_ssh, firsts), strict=True))
            for host in hosts:
                first = answers[classes[self._config.host_class(host)]]
                answer = for_another(first, self._config, host.name)
                if answer and host not in answers:
                    answers[host] = answer
            unanswered = [host for host in hosts if host not in answers]
            answers.update(zip(unanswered, pool.map(self._ask_ssh, unanswered), strict=True))
        return answers

    def _ask_ssh(self, host: Host) -> SshSettings:
        """Return what `ssh -G` prints for the host."""
        argv = [str(self._ssh), "-G", "-T", *ssh_options(host, self._file)]
        try:
            process = subprocess.run(
                [*argv, "--", host.name],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=ASK_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{host.name}: ssh_config was not read in {ASK_TIMEOUT:.0f} s",
                hint=f"{self._check_command(host)}   # a `Match exec` that hangs?",
                slug="ssh-config-timeout",
            ) from None
        if process.returncode:
            raise InputError(
                f"{host.name}: ssh cannot read its configuration",
                why=process.stderr.decode("utf-8", "replace").strip(),
                hint=self._check_command(host),
                slug="ssh-config-invalid",
            )
        return read_answer(process.stdout.decode("utf-8", "replace"), host.name)

    def _check_command(self, host: Host) -> str:
        file = ("-F", str(self._file)) if self._file else ()
        return login_command.ssh_to(host, options=("-G", *file))

    def _answer_without_ssh(self, host: Host) -> SshSettings:
        """Answer from the hostfile alone, which is enough if ssh_config contains no settings."""
        if any(key != "include" for key, _ in self._config.settings):
            raise NotHere(
                "ssh_config is read by the ssh program, which "
                + ("is not installed" if self.me.known else "refuses to run"),
                why="" if self.me.known else f"the user {self.me.uid} has no entry in /etc/passwd",
                hint="apt install openssh-client" if self.me.known else "",
                slug="ssh-program-missing",
            )
        return replace(DEFAULTS, name=host.name, hostname=host.name, user=self.me.user)

    def _read_config(self) -> Config:
        """Parse the user's and the system's ssh_config, or the file given with -F."""
        folder = Path(self.me.home, ".ssh")
        if self._file is None:
            files = [(folder / "config", folder), (SYSTEM_CONFIG, SYSTEM_CONFIG.parent)]
        elif str(self._file) == "none":
            files = []
        elif self._file.exists():
            files = [(self._file, folder)]
        else:
            raise InputError(
                f"there is no SSH configuration file {self._file}",
                hint="correct the path; without -F, ipexctl reads ~/.ssh/config",
                slug="ssh-config-missing",
            )
        return parse_config(_config_texts(files, self.me.home))


def _config_texts(files: Sequence[tuple[Path, Path]], home: str) -> Iterator[str]:
    """Yield the texts of the files and of those they include from their folders, each once."""
    todo, seen = list(files), set[Path]()
    while todo:
        file, folder = todo.pop(0)
        if file in seen:
            continue
        seen.add(file)
        try:
            text = read_file(file).decode("utf-8", "surrogateescape")
        except OSError as e:
            if e.errno == errno.EFBIG:
                raise InputError(f"{file}: {e.strerror}", slug="ssh-config-unreadable") from None
            continue  # ssh itself ignores missing files, and complains about other errors
        yield text
        for word in included_files(text):
            pattern = home + word[1:] if word.startswith("~/") else word
            paths = glob.glob(os.path.join(folder, pattern))  # noqa: PTH118, PTH207
            todo += [(Path(path), folder) for path in sorted(paths)]


# --- jump hosts ----------------------------------------------------------------------------------


def ssh_options(host: Host, config_file: Path | None) -> list[str]:
    """Return the options of a hostfile and -F as ssh options."""
    argv = ["-F", str(config_file)] if config_file else []
    if host.user:
        argv += ["-l", host.user]
    if host.port:
        argv += ["-p", str(host.port)]
    return argv


def jump_chain(answer: SshSettings, ask: Callable[[Host], SshSettings]) -> Hops:
    """Return all jump hosts on the way: the first hop may have its own ProxyJump, and so on."""
    hops = answer.proxy_jump
    while hops:
        earlier = ask(hop_host(hops[0])).proxy_jump
        if not earlier or hops[0] in earlier:  # `Host *` names the jump host as its own jump host
            break
        hops = (*earlier, *hops)
        if len(hops) > MAX_JUMPS:
            raise Unreachable(
                f"{answer.name}: ProxyJump is circular",
                why=" -> ".join(hops),
                hint=f"{login_command.ssh_to(answer.given, options=('-G',))} | grep -i proxyjump",
                slug="proxyjump-circular",
            )
    return hops


def hop_host(hop: str) -> Host:
    name, user, port = parse_jump(hop)
    return Host(name, user=user, port=port)
