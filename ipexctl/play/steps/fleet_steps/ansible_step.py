from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.step_schema import arg
from ipexctl.play.verb_calls import target_of
from ipexctl.quick_dataclass import dataclass

_LAST_LINES = 5
_OLDEST = (3, 9)  # Python on hosts: ansible-core 2.19 asks for 3.8, later ones for more


@dataclass(frozen=True)
class Ansible(FleetStep):
    """Run a playbook with the `ansible-playbook` program on this machine.

    Ansible gets the hosts of the step with their groups, users, ports and Pythons, and the host
    keys that ipexctl accepts. With --check it runs in its own check mode: tasks that it skips
    there make the result "unknown", and tasks with `check_mode: false` do run.
    """

    keyword = "ansible"
    main = "playbook"
    example = "ansible: {playbook: site.yml, extra: {release: '4'}, tags: [base]}"

    playbook: str = arg("Ansible playbook on this machine.")
    extra: dict[str, str] = arg("Extra variables.", {})
    tags: tuple[str, ...] = arg("Only tasks with these tags.", ())
    skip_tags: tuple[str, ...] = arg("Leave out tasks with these tags.", ())

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.play.ansible_program import Playbook, run_playbook

        lines: list[str] = []

        def say(line: str) -> None:
            lines.append(line)
            if line.strip():
                on.say("", line)

        playbook = Playbook(
            path=Path(self.playbook).expanduser(),
            extra=self.extra,
            tags=self.tags,
            skip_tags=self.skip_tags,
            check=on.check,
            pythons=_agent_pythons(on),
        )
        hosts = on.fleet.hosts
        hosts = replace(hosts, hosts=tuple(host for host in hosts.hosts if host.name in on.hosts))
        code = run_playbook(playbook, target_of(on), hosts, say)
        recap = read_recap(lines)
        return {name: _ansible_result(on, name, recap.get(name), code, lines) for name in on.hosts}


def _agent_pythons(on: Acting) -> dict[str, str]:
    """Return the Pythons that our agents run with: Ansible may choose one that does not start."""
    hellos = {host.name: agent.hello for host, agent in on.fleet.agents.items()}
    return {name: hello.path for name, hello in hellos.items() if hello.python >= _OLDEST}


def _ansible_result(
    on: Acting, name: str, row: Counter[str] | None, code: int, lines: list[str]
) -> Result:
    """Convert a host's row of Ansible's recap to the result of the step."""
    if row is None and code == 0:
        return Result(State.SKIPPED, "the playbook has no tasks for this host")
    if row is None:
        last = [line for line in lines if line.strip()][-_LAST_LINES:]
        return Result(State.FAILED, f"ansible-playbook ended with code {code}", "\n".join(last))
    counts = f"ok={row['ok']} changed={row['changed']} skipped={row['skipped']}"
    if row["unreachable"] or row["failed"]:
        state = State.UNREACHABLE if row["unreachable"] else State.FAILED
        if on.check and not row["unreachable"]:  # it may need what an earlier task would create
            return Result(State.UNKNOWN, f"a task fails in check mode ({counts})")
        detail = "a task failed" if row["failed"] else "Ansible could not log in"
        prefixes = (f"fatal: [{name}", f"failed: [{name}")  # as it prints them for a host
        why = "\n".join(line for line in lines if line.startswith(prefixes))
        return Result(state, f"{detail} ({counts})", why)
    if on.check:
        unsure = State.UNKNOWN if row["skipped"] or row["ignored"] or row["rescued"] else State.OK
        return Result(State.WOULD_CHANGE if row["changed"] else unsure, counts)
    return Result(State.CHANGED if row["changed"] else State.OK, counts)


_HEAD = re.compile(r"PLAY RECAP \*+$")
_HOST = re.compile(r"(?P<host>\S+)\s+: (?P<counts>ok=\d+(?:\s+[a-z]+=\d+)+)$")
_COUNT = re.compile(r"([a-z]+)=(\d+)")


def read_recap(lines: Iterable[str]) -> dict[str, Counter[str]]:
    """Return the counts in the recap of `ansible-playbook` by host; empty if the program ended
    before printing it."""
    in_recap = False
    recap: dict[str, Counter[str]] = {}
    for line in lines:
        if _HEAD.match(line):
            in_recap = True
        elif in_recap and (row := _HOST.match(line.strip())):
            counts = {name: int(n) for name, n in _COUNT.findall(row["counts"])}
            recap[row["host"]] = Counter(counts)
    return recap
