"""The files that a login shell reads before it runs a command over SSH."""

from __future__ import annotations

import re

from ipexctl.errors import HostFailed
from ipexctl.inventory.inventory import Host
from ipexctl.machines.openssh import login_command

USUAL = "~/.bashrc, for zsh ~/.zshenv"
FILES = {
    "bash": ("~/.bashrc", "/etc/bash.bashrc", "/etc/bashrc"),
    "zsh": ("~/.zshenv", "/etc/zsh/zshenv", "/etc/zshenv"),
    "tcsh": ("~/.tcshrc", "~/.cshrc", "/etc/csh.cshrc"),
    "csh": ("~/.cshrc", "/etc/csh.cshrc"),
    "fish": ("~/.config/fish/config.fish", "/etc/fish/config.fish"),
}
_BY_SHELL = " ".join(f'*/{shell}) f="{" ".join(files)}";;' for shell, files in FILES.items())
# A plain sh command that prints the lines in them that may read the input of a command.
FIND_READERS = f"case $SHELL in {_BY_SHELL.replace('~', '$HOME')} esac; " + (
    'grep -nEs "(^|[;&|[:space:]])(read|readarray|mapfile|head|ssh)([[:space:]]|$)" /dev/null $f'
)


def stdin_readers(text: str) -> list[str]:
    """Return `line 3 of /home/ann/.bashrc: read x` for each line of FIND_READERS but comments."""
    matches = (re.match(r"(/[^:]+):(\d+):\s*([^#\s].*)", line) for line in text.splitlines())
    return [f"line {match[2]} of {match[1]}: {match[3].strip()}" for match in matches if match]


def input_gone(host: Host, evidence: str, likely: str = "") -> HostFailed:
    """Return the error. `evidence`: how it was detected. `likely`: which lines read the input."""
    return HostFailed(
        f"{host.name}: a start-up file of the login shell reads the input of commands",
        why=f"{evidence}; likely {likely or f'`read` in {USUAL} or a file that it sources'}",
        hint=f"{login_command.ssh_to(host, 'cat')} <<< ok   # should print ok; let what reads run "
        "in interactive shells only: [[ $- == *i* ]] && read ...",
        slug="startup-file-reads-input",
    )
