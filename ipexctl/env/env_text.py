"""What `env ls`, `env diff`, `env rm` and `env exec` show."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ipexctl.base.host_outcome import HostState
from ipexctl.base.sizes import format_bytes
from ipexctl.common.removal_answers import EnvKept
from ipexctl.env.env import Compared, EnvListing, Removal, RemovedEnvs
from ipexctl.env.env_exec import OnLine, Ran
from ipexctl.facts.env_choice import EnvChoice, describe_user
from ipexctl.facts.package_changes import compare_packages
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.stack.env_list import Drift, HostEnvs, most_common_env, title_of, use_of
from ipexctl.terminal.confirm import DECLINED
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import (
    count_states,
    host_documents,
    host_lines,
    hosts_with_lines,
    not_shown,
)

MOST_PACKAGES = 6  # requested packages that are listed


# --- env ls --------------------------------------------------------------------------------------


def kept_text(listing: EnvListing) -> str:
    return hosts_with_lines(
        (on_host.host, _host_lines(on_host, listing.choice)) for on_host in listing.all_hosts
    )


def _host_lines(on_host: HostEnvs, choice: EnvChoice) -> tuple[str, ...]:
    found = on_host.found
    n = len(found.envs)
    count = f"{n} environment{'s' * (n != 1)}" if n else "no environments"
    size = f", {format_bytes(found.size)}" if n else ""
    head = f"{count} in {found.root}{size}, and {format_bytes(found.blobs)} of wheels"
    lines = [_env_line(on_host, env, choice) for env in found.envs]
    if choice.key and not on_host.find_env(choice.key):
        lines.append(f"  {choice.key}  missing   {choice.reason_for(choice.key)}: ipexctl install")
    return (head, *lines)


def _env_line(on_host: HostEnvs, env: EnvKept, choice: EnvChoice) -> str:
    use = use_of(on_host, env.key, choice)
    state = ("tested" if env.proved else "not tested") if env.whole else "incomplete"
    state = "changed" if env.changed else state
    size = format_bytes(env.size)
    line = f"  {env.key}  {use:8}  {state:10}  {size:>9}  {title_of(env)}".rstrip()
    shared = (
        f"{format_bytes(env.shared)} of it shared with other environments" if env.shared else ""
    )
    details = (_requested_text(env), shared, _users_text(env, choice))
    return "\n    ".join([line, *filter(None, details)])


def _requested_text(env: EnvKept) -> str:
    names = [" ".join(package) for package in env.requested]
    rest = f" and {len(names) - MOST_PACKAGES} more" if len(names) > MOST_PACKAGES else ""
    return f"requested: {', '.join(names[:MOST_PACKAGES])}{rest}" if names else ""


def _users_text(env: EnvKept, choice: EnvChoice) -> str:
    built = f"built {env.built[:10]}" if env.built else ""
    users = map(describe_user, env.users) if env.users else ["project unknown"]
    return "; ".join(filter(None, [choice.reason_for(env.key), built, *users]))


def kept_document(listing: EnvListing) -> dict[str, Any]:
    return {
        "lock": listing.choice.lock or None,
        "hosts": [_host_document(on_host, listing.choice) for on_host in listing.all_hosts],
        "failed": host_documents(listing.recaps),
        "exit_code": listing.exit_code,
    }


def _host_document(on_host: HostEnvs, choice: EnvChoice) -> dict[str, Any]:
    return {
        "host": on_host.host,
        "root": on_host.found.root,
        "current": on_host.current or None,
        "previous": on_host.previous or None,
        "environments": [
            {
                "key": env.key,
                "use": use_of(on_host, env.key, choice),
                "of_this_project": bool(choice.reason_for(env.key)),
                "whole": env.whole,
                "proved": env.proved,
                "bytes": env.size,
                "shared_bytes": env.shared,
                "title": title_of(env),
                "requested": [{"package": name, "version": v} for name, v in env.requested],
                "built": env.built or None,
                "projects": [
                    {**u.project.document(), "asked": u.asked, "used": u.used} for u in env.users
                ],
            }
            for env in on_host.envs
        ],
        "environment_bytes": on_host.found.size,
        "blob_bytes": on_host.found.blobs,
    }


def show_kept(listing: EnvListing) -> None:
    print_text(stdout_console(), kept_text(listing))
    print_lines(stdout_console(), not_shown(listing.recaps, len(listing.all_hosts)))
    if listing.remove:
        print_text(stdout_console(), f"\n{listing.remove}   # removes what is unused")


# --- env diff ------------------------------------------------------------------------------------


def compared_text(compared: Compared) -> str:
    drifts = compared.drifts
    key = most_common_env(drifts)
    packages = next((dict(d.found.packages) for d in drifts if d.current == key), {})
    differ = len({d.current for d in drifts}) > 1
    return hosts_with_lines(
        (d.host, [*_drift_lines(d), *(_other_lines(d, key, packages) if differ else ())])
        for d in drifts
    )


def _drift_lines(drift: Drift) -> list[str]:
    found = drift.found
    if not drift.current:
        return [f"no environment in {found.root}"]
    lines = [f"  {c}" for c in drift.changed] + [f"  {path} {state}" for path, state in found.files]
    lines += [f"  {found.more} more files"] if found.more else []
    n = len(found.packages)
    how = "changed by hand" if drift.by_hand else f"as built: {n} packages, {found.looked} files"
    return [f"{drift.current}  {how}", *lines]


def _other_lines(d: Drift, key: str, packages: Mapping[str, str]) -> list[str]:
    """Return what distinguishes its environment from the one that most hosts have."""
    if d.current == key or not d.current:
        return []
    return [
        f"  than {key}:",
        *(f"    {c}" for c in compare_packages(packages, dict(d.found.packages))),
    ]


def compared_document(compared: Compared) -> dict[str, Any]:
    return {
        "hosts": [_drift_document(drift) for drift in compared.drifts],
        "failed": host_documents(compared.recaps),
        "next": compared.mend or None,
        "exit_code": compared.exit_code,
    }


def _drift_document(drift: Drift) -> dict[str, Any]:
    found = drift.found
    return {
        "host": drift.host,
        "root": found.root,
        "current": drift.current or None,
        "packages": dict(found.packages),
        "changed": [{"package": c.package, "was": c.was, "now": c.now} for c in drift.changed],
        "files": [{"path": path, "what": state} for path, state in found.files],
        "more_files": found.more,
        "files_looked_at": found.looked,
        "files_read": found.hashed,
    }


def show_compared(compared: Compared) -> None:
    print_text(stdout_console(), compared_text(compared))
    print_lines(stdout_console(), not_shown(compared.recaps, len(compared.drifts)))
    if compared.mend:
        print_text(stdout_console(), f"\nnext: {compared.mend}")


# --- env rm --------------------------------------------------------------------------------------


def removal_text(removals: Sequence[Removal]) -> str:
    return hosts_with_lines((removal.host, _removal_lines(removal)) for removal in removals)


def _removal_lines(removal: Removal) -> list[str]:
    stays = [f"{key}  stays: {why}" for key, why in removal.kept]
    if not removal.removed and not removal.blobs:
        first, *rest = stays or ["nothing"]
        return [first, *(f"  {line}" for line in rest)]
    use = f"; {removal.current} stays in use" if removal.current else ""
    lines = [f"{format_bytes(removal.bytes)} in {removal.root}{use}"]
    titles = dict(removal.titles)
    lines += [
        f"  {key}  {format_bytes(size):>9}  {titles.get(key, '')}".rstrip()
        for key, size in removal.removed
    ]
    lines += [
        f"  {removal.blobs} wheels that no environment needs  {format_bytes(removal.blob_bytes)}"
    ] * bool(removal.blobs)
    return [*lines, *(f"  {line}" for line in stays)]


def show_going(removals: Sequence[Removal]) -> None:
    print_text(stderr_console(), f"to be removed:\n{removal_text(removals)}")


def show_removed(removed: RemovedEnvs) -> None:
    if removed.declined:
        print(DECLINED)
    else:
        has_any = any(removal.removed or removal.blobs for removal in removed.removals)
        would = "would be removed:" if has_any else "nothing to remove:"
        title = "removed:" if removed.done else would
        print_text(stdout_console(), f"{title}\n{removal_text(removed.removals)}")
    print_lines(stdout_console(), not_shown(removed.recaps, len(removed.removals)))


def removed_document(removed: RemovedEnvs) -> dict[str, Any]:
    return {
        "done": removed.done,
        "declined": removed.declined,
        "hosts": [
            {
                "host": removal.host,
                "root": removal.root or None,
                "current": removal.current or None,
                "environments": [{"key": key, "bytes": size} for key, size in removal.removed],
                "kept": [{"key": key, "why": why} for key, why in removal.kept],
                "blobs": removal.blobs,
                "bytes": removal.bytes,
            }
            for removal in removed.removals
        ],
        "failed": host_documents(removed.recaps),
        "exit_code": removed.exit_code,
    }


# --- env exec ------------------------------------------------------------------------------------


def host_line_printer() -> OnLine:
    """Return a printer that keeps stdout and stderr apart, with colour only if allowed."""
    colours = {
        False: stdout_console().color_system is not None,
        True: stderr_console().color_system is not None,
    }

    def on_line(host: str, line: str, err: bool) -> None:
        text = line if colours[err] else without_colour(line)
        print(f"{host}: {text}", file=sys.stderr if err else sys.stdout, flush=True)

    return on_line


class CollectedLines:
    """Collects all lines, for --json."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, bool], list[str]] = {}

    def __call__(self, host: str, line: str, err: bool) -> None:
        self.lines.setdefault((host, err), []).append(line)


def show_ran(ran: Ran) -> None:
    bad = [recap for recap in ran.recaps if recap.state is not HostState.OK]
    print_lines(stderr_console(), [*host_lines(bad)[:-1], count_states(ran.recaps)] if bad else ())


def ran_document(ran: Ran, collected: CollectedLines) -> dict[str, Any]:
    return {
        "hosts": [
            {
                "host": host,
                "code": code,
                "stdout": collected.lines.get((host, False), []),
                "stderr": collected.lines.get((host, True), []),
            }
            for host, code in ran.codes
        ],
        "failed": host_documents([r for r in ran.recaps if r.state is not HostState.OK]),
        "exit_code": ran.exit_code,
    }
