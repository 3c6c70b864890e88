"""A plan as a shell script for the first host, which does without ipexctl what `run` would do.

It starts mpirun's daemons by ssh, so the first host needs keys for the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ipexctl.base.quoting import quote
from ipexctl.errors import InputError, printable
from ipexctl.inventory.inventory import Host
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan import mpi, port_plan, rank_variables
from ipexctl.run.plan.launch import HostPlan, LaunchPlan

SECRETS = ".ipexctl/secrets"
_GIVEN = "IPEXCTL_GIVEN_"
_END = "END-OF-IPEXCTL"
_SSH = ("ssh", "-x", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes")
_PLAIN = re.compile(r"[\w./+-]*\Z", re.ASCII)  # what sed and a double-quoted text leave as it is


@dataclass(frozen=True)
class Printed:
    """What the script is made of, besides the plan. `passed`: variables whose values stay out."""

    plan: LaunchPlan
    hosts: Mapping[str, Host]
    folder: str
    passed: tuple[str, ...] = ()


def script(printed: Printed) -> str:
    """Raises InputError where a shell script could not do it."""
    if printed.folder != printable(printed.folder):
        raise InputError(
            f"the name of {printed.folder} contains control characters",
            hint="ipexctl run, without --print-cmd",
            slug="not-for-a-shell-script",
        )
    lines = [*_head(printed), *_file("rank", _rank(printed))]
    lines += _without_mpi(printed) if printed.plan.mpi == mpi.NONE else _with_mpi(printed)
    return "\n".join(lines) + "\n"


def _head(printed: Printed) -> Iterator[str]:
    plan, first = printed.plan, printed.plan.hosts[0]
    yield "#!/bin/sh"
    yield f"# {plan.world_size} ranks on {len(plan.hosts)} hosts; made by ipexctl run --print-cmd."
    yield f"# Run it on {first.host}: sh FILE [FOLDER]. FOLDER is the training script's folder, and"
    yield "# must be there on every host, as must what `ipexctl install` has put there."
    if len(plan.hosts) > 1:
        others = ", ".join(h.host for h in plan.hosts[1:])
        yield f"# {first.host} logs in to {others} by its own keys; it must know their host keys."
    for name in plan.secret:
        yield f"# {name} is secret. On each host, put its value into a file that only you can read:"
        yield f"#   ~/{SECRETS}/{name}"
    yield "set -eu"
    yield f"folder=${{1:-{quote((printed.folder,))}}}"
    for name in printed.passed:  # the plan may set the same name for mpirun
        yield f'export {_GIVEN}{name}="${{{name}:?has no value here}}"'
    yield "work=$(mktemp -d)"
    yield "trap 'rm -rf \"$work\"' EXIT"


def _file(name: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"cat >\"$work/{name}\" <<'{_END}'"
    for line in lines:
        if _END in line:
            raise InputError(
                f"a value of this run contains {_END} in it", slug="not-for-a-shell-script"
            )
        yield line
    yield _END


# --- one rank ------------------------------------------------------------------------------------


def _rank(printed: Printed) -> Iterator[str]:
    """For /bin/sh on every host, with the folder as $1. MPI's variables contain the rank."""
    plan = printed.plan
    yield "rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${RANK:?}}}"
    yield "case $rank in"
    for host in plan.hosts:
        yield "|".join(str(p.rank) for p in host.ranks) + ")"
        yield from (_export(name, value) for name, value in host.env)
        yield from (
            _export(n, v) for n, v in host.rank_env if n not in printed.passed
        )  # those come last
        yield f"python={quote((f'{host.prefix}/bin/python3',))} ;;"
    yield "esac"
    yield "case $rank in"
    for host in plan.hosts:
        for place in host.ranks:
            own = rank_variables.environment(plan, host, place)
            words = [_export(n, own[n]) for n in own if n not in dict(host.rank_env)]
            cpus = ",".join(map(str, place.cpus))
            yield f"{place.rank}) {'; '.join(words)}; cpus={cpus} ;;"
    yield "esac"
    for name in plan.secret:
        yield f'{name}=$(cat "$HOME/{SECRETS}/{name}") && export {name} || exit 1'
    yield 'cd "$1"'
    yield f'set -- "$python" {quote(plan.argv)}'
    yield '[ ! "$cpus" ] || ! pin=$(command -v taskset) || set -- "$pin" -c "$cpus" "$@"'
    for name in printed.passed:
        yield f'export {name}="${_GIVEN}{name}"; unset {_GIVEN}{name}'
    yield 'exec "$@" </dev/null'


def _export(name: str, value: str) -> str:
    return quote(("export", f"{name}={value}"))


# --- what starts them ----------------------------------------------------------------------------


def _with_mpi(printed: Printed) -> Iterator[str]:
    plan = printed.plan
    yield from _file("hosts", iter(plan.machinefile.splitlines()))
    yield from _file("bootstrap", _bootstrap(printed))
    yield 'chmod +x "$work/bootstrap"'
    yield from (_export(name, value) for name, value in plan.hosts[0].env)
    yield " ".join(_mpirun(printed)) + ' /bin/sh -c "$(cat "$work/rank")" sh "$folder"'


def _mpirun(printed: Printed) -> Iterator[str]:
    first, row = printed.plan.hosts[0], mpi.FLAVOURS[printed.plan.mpi]
    values = {"run": "", "nic": first.nic, "n": str(printed.plan.world_size)}
    yield quote((f"{first.mpi_bin}/mpirun",))
    names = [f"{_GIVEN}{name}" for name in printed.passed]
    if not row.own_names:
        yield from (quote(("-x", name)) for name in names)
    for word in row.flags:
        if word == "-genvnone" and names:
            yield quote(("-genvlist", ",".join(names)))
        else:
            yield ('"$work"' if "{run}" in word else "") + quote((word.format_map(values),))
    if more := port_plan.of_mpirun(first, row.flags):
        yield quote(more)


def _bootstrap(printed: Printed) -> Iterator[str]:
    """mpirun calls it as `[-q] [-x] HOST COMMAND`, where COMMAND is for a shell on HOST."""
    first = printed.plan.hosts[0]
    row = mpi.FLAVOURS[printed.plan.mpi]
    yield "#!/bin/sh"
    yield 'while [ "$1" = -q ] || [ "$1" = -x ]; do shift; done'
    yield "host=$1; shift"
    yield "case $host in"
    for host in printed.plan.hosts:
        ssh = (*_SSH, *_login(printed.hosts[host.host]))
        login = quote(("/bin/sh", "-c") if host is first else ssh)
        edits = " ".join(quote(("-e", edit)) for edit in _edits(first, host, row))
        line = f'"$(printf \'%s\' "$*" | sed {edits})"' if edits else '"$*"'
        yield f"{quote((host.label,))}) exec {login} {line} ;;"
    yield "esac"
    yield 'echo "no such host: $host" >&2; exit 1'


def _login(host: Host) -> tuple[str, ...]:
    port = ("-p", str(host.port)) if host.port else ()
    user = ("-l", host.user) if host.user else ()
    return (*port, *user, "--", host.address or host.name)


def _edits(first: HostPlan, host: HostPlan, row: mpi.Flavour) -> Iterator[str]:
    """sed: the first host's prefix and interface in a command become those of this host, and
    mpirun's own port becomes that of its daemons."""
    words = port_plan.of_mpirun(first, row.flags)
    for name, port in zip(words[1::3], words[2::3], strict=True):
        yield rf's|\({name}\) "*{port}"*|\1 {int(port) + 1}|g'
    if not row.own_names:  # its daemons complain of a program that only the first host has
        yield r's|\(plm_[rs]sh_agent\) "[^"]*"|\1 /bin/sh|g'
    for own, other in ((first.prefix, host.prefix), (first.nic, host.nic)):
        if not (_PLAIN.match(own) and _PLAIN.match(other)):
            raise InputError(
                f"{own!r} or {other!r} is not allowed in a generated shell script",
                hint="ipexctl run, without --print-cmd",
                slug="not-for-a-shell-script",
            )
    if first.prefix != host.prefix:
        yield f"s|{first.prefix.replace('.', '[.]')}|{host.prefix}|g"
    if first.nic != host.nic:
        yield f"s|--iface {first.nic}|--iface {host.nic}|"
        yield f's|_if_include "*{first.nic}"*|_if_include {host.nic}|g'


def _without_mpi(printed: Printed) -> Iterator[str]:
    """Starts each rank without MPI; the script exits with the code of a rank that failed."""
    first, *others = printed.plan.hosts
    if printed.passed and others:
        raise InputError(
            f"--env {printed.passed[0]}: without MPI, a script cannot forward it to the hosts",
            hint="ipexctl run, without --print-cmd; or set it there",
            slug="env-not-forwarded",
        )
    yield "ranks="
    for place in first.ranks:
        yield f'RANK={place.rank} /bin/sh "$work/rank" "$folder" & ranks="$ranks $!"'
    for host in others:
        login = quote((*_SSH, *_login(printed.hosts[host.host])))
        for place in host.ranks:
            line = f'IFS= read -r folder; RANK={place.rank} exec /bin/sh -s "$folder"'
            told = quote((quote(("exec", "/bin/sh", "-c", line)),))
            yield f'{{ echo "$folder"; cat "$work/rank"; }} | {login} {told} & ranks="$ranks $!"'
    yield "code=0"
    yield 'for rank in $ranks; do wait "$rank" || code=$?; done'
    yield "exit $code"


def left_out(words: Sequence[str]) -> tuple[str, ...]:
    """The names given to --env without a value, as secrets are."""
    return tuple(
        dict.fromkeys(
            word for word in words if "=" not in word and word not in rank_variables.FIXED
        )
    )
