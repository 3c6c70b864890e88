"""Lines that a user may paste into a shell: a command, with words about it behind #."""

from __future__ import annotations

import re

# what a line to paste begins with; other hints are code or words for the reader
PROGRAMS = frozenset(
    """
    accelerate apt apt-get bash cat cd chmod chown conda cp deepspeed df dnf docker echo env eval
    export file findmnt getent git grep head hwclock ip ipexctl jupyter kill loginctl ls mkdir
    mount mpirun mv nproc ping pip pkill printf ps python python3 rm sacct scontrol sed sinfo
    source srun ss ssh ssh-add ssh-copy-id ssh-keygen ssh-keyscan stat sudo sysctl systemctl tail
    tar taskset timedatectl touch ulimit uname unset uv which
    """.split()  # noqa: SIM905 - a list of words stays readable
)
# words that stand for what only the reader knows: with one of them, a line cannot be pasted
_PLACEHOLDER = re.compile(
    r"(?<![\w$/.{-])(?<!--notify )(?:ADDRESS|COMMAND|CORES_PER_RANK|DIR|FILE|FOLDER|HOST|HOSTFILE"
    r"|IMAGE|JOBID|LOGFILE|MODULE|NAME|NIC|NODE|ORG|PACKAGE|PATH|PID|PREFIX|RANKS|RANKS_PER_HOST"
    r"|SCRIPT|\.\.\.)(?![\w=-])"
)
_COMMENT = " # "
_GAP, _NEXT = "   ", "; "  # between a command and the words about it; between two ways


def is_command(line: str) -> bool:
    """Decide whether a line of a hint begins with a command."""
    words = line.split(None, 1)
    return bool(words) and words[0] in PROGRAMS


def shell_line(line: str) -> str:
    """Return a line of a hint so that a shell accepts it: words for the reader go behind #, and so
    does a command with a word that stands for another one."""
    shown = _accepted_line(line)
    is_template = not shown.startswith("#") and _PLACEHOLDER.search(shown.partition(_COMMENT)[0])
    return f"# {shown}" if is_template else shown


def _accepted_line(line: str) -> str:
    return line if not line or line.startswith("#") or is_command(line) else f"# {line}"


def first_way(fix: str) -> str:
    """Return the first of the ways in a line as one to paste: a command, and words behind #."""
    command, gap, words = fix.partition(_GAP)
    if not is_command(command):
        return shell_line(fix.partition(_NEXT)[0])
    if not gap:
        return shell_line(command.partition(_NEXT)[0])
    return shell_line(f"{command}{_GAP}# {words.lstrip('# ').partition(_NEXT)[0]}")
