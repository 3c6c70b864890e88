"""Check the launches that mpirun requests: only daemons of this run, on the hosts of the plan.

`run` is a HubOrder (common/run_orders.py).
"""

import itertools
import re
import shlex

from ipexctl.common.run_orders import HostOfRun, HubOrder, MpiNames

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator

SHELL = ";&|<>()"


class NotOfThisRun(Exception):
    """mpirun requested something else; the message says what."""


def read_launch(run: HubOrder, argv: "list[str]") -> "tuple[HostOfRun, list[str]]":
    """Parse `HOST COMMAND`, as for ssh: return the host of the plan, and the command's words.

    Hydra: `-q -x -6 HOST PREFIX/bin//hydra_bstrap_proxy ...`. Open MPI: `HOST NAME=VALUE;export
    NAME;...;PREFIX/bin/prted ...`, which is a line for a shell. No shell ever runs it: the part
    before the daemon is left out, since the host's supervisor has set these variables.
    """
    if not run.mpi:
        raise NotOfThisRun("a launch was requested, but this run has no mpirun")
    words = list(itertools.dropwhile(lambda word: word in ("-q", "-x", "-6"), argv))
    if len(words) < 2:
        raise NotOfThisRun("mpirun requested something that is not a launch: %s" % (argv,))
    target = next((host for host in run.hosts if host.label == words[0]), None)
    if target is None:
        raise NotOfThisRun("mpirun requested a host that is not in this run: %s" % words[0])
    own_prefix = run.hosts[0].prefix
    command = read_daemon_command(run.mpi, run.hosts[0].mpi_bin, words[1:])
    arguments = [replace_prefix(word, own_prefix, target.prefix) for word in command[1:]]
    program = "%s/%s" % (target.mpi_bin, command[0])
    return target, [program] + list(of_host(run.mpi, target, arguments))


def read_daemon_command(mpi: MpiNames, programs: str, words: "list[str]") -> "list[str]":
    """Return the daemon's name and arguments. `programs`: the first host's folder of programs."""
    tokens = split_line(" ".join(words))
    start = next((i for i, word in enumerate(tokens) if is_daemon(word, mpi, programs)), None)
    if start is None or (start and mpi.own_names):
        raise NotOfThisRun("mpirun requested a program that is not its daemon: %s" % words[0])
    command = tokens[start:]
    command = command[:-1] if command[-1] == ")" else command
    return [command[0].rpartition("/")[2]] + command[1:]


def split_line(line: str) -> "list[str]":
    lexer = shlex.shlex(line, posix=True, punctuation_chars=SHELL)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as e:
        raise NotOfThisRun("mpirun requested something that is not a launch: %s" % e) from None


def is_daemon(word: str, mpi: MpiNames, programs: str) -> bool:
    folder, _, program = word.rpartition("/")
    is_in_place = folder.rstrip("/") == programs or not (folder or mpi.own_names)
    return program in mpi.daemons and is_in_place


def of_host(mpi: MpiNames, target: HostOfRun, words: "list[str]") -> "Iterator[str]":
    """Return the arguments without node0's interface and settings, which differ on each host."""
    index = 0
    while index < len(words):
        word, name = words[index], words[index + 1 : index + 2]
        if word == "--iface":
            yield word
            yield target.nic
            index += 2
        elif word.endswith("mca") and name and name[0] in mpi.dropped:
            index += 3
        elif word.endswith("mca") and name and name[0] in ("plm_ssh_agent", "plm_rsh_agent"):
            # a daemon starts no others, and complains if node0's program is not on its host
            yield word
            yield name[0]
            yield "/bin/sh"
            index += 3
        else:
            yield word
            index += 1


def replace_prefix(word: str, old: str, new: str) -> str:
    return new + word[len(old) :] if re.match(re.escape(old) + r"(/|$)", word) else word
