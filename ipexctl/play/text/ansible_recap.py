"""What `ansible-playbook` prints -> what became of each host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from ipexctl.quick_dataclass import dataclass

_HEAD = re.compile(r"PLAY RECAP \*+$")
_HOST = re.compile(r"(?P<host>\S+)\s+: (?P<counts>ok=\d+(?:\s+[a-z]+=\d+)+)$")
_COUNT = re.compile(r"([a-z]+)=(\d+)")
_TASK = re.compile(r"(?:TASK|RUNNING HANDLER) \[(?P<task>.*)\] \**$")
# of ansible-core 2.9 to 2.19: `fatal: [node01]: FAILED! => {...}`, `[ERROR]: ...`
_FATAL = re.compile(r"(?:fatal|failed): \[(?P<host>[^\] ]+)(?: -> [^\]]*)?\]")


@dataclass(frozen=True)
class AnsibleHost:
    ok: int = 0
    changed: int = 0
    unreachable: int = 0
    failed: int = 0
    skipped: int = 0
    ignored: int = 0
    rescued: int = 0
    task: str = ""  # the last one that failed there
    words: str = ""  # and what it said


def _message(said: str) -> str:
    """`FAILED! => {"msg": "..."}`: the module's own words."""
    try:
        result = json.loads(said.partition(" => ")[2])
    except ValueError:
        return said
    return str(result.get("msg") or said) if isinstance(result, dict) else said


def read_recap(lines: Iterable[str]) -> dict[str, AnsibleHost]:
    """By host; empty where the program ended before it came to its recap."""
    task, in_recap = "", False
    failed: dict[str, tuple[str, str]] = {}
    found: dict[str, AnsibleHost] = {}
    for line in lines:
        if named := _TASK.match(line):
            task = named["task"]
        elif fatal := _FATAL.match(line):
            failed[fatal["host"]] = (task, _message(line[fatal.end() :].lstrip(": ")))
        elif _HEAD.match(line):
            in_recap = True
        elif in_recap and (row := _HOST.match(line.strip())):
            counts = {name: int(n) for name, n in _COUNT.findall(row["counts"])}
            known = {k: n for k, n in counts.items() if k in AnsibleHost.__annotations__}
            task_of, words = failed.get(row["host"], ("", ""))
            found[row["host"]] = AnsibleHost(**known, task=task_of, words=words)
    return found
