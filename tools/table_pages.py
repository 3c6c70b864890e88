"""Pages of docs/ and tables on them: launchers, migration rules, failures, variables of a rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ipexctl.explain.causes.causes import Cause
from ipexctl.migrate.code.rules import Rule
from ipexctl.run.plan.rank_variables import ERROR_FILE, HOST_WIDE, TABLE
from ipexctl.user_code.launchers.accelerate_config import Keys
from ipexctl.user_code.launchers.launcher_table import MEANINGS, Flag, Launcher, Launchers

RULES = "<!-- rules: made by tools/gen_docs.py -->", "<!-- end of rules -->"
VARIABLES = "<!-- variables: made by tools/gen_docs.py -->", "<!-- end of variables -->"


def _between(text: str, marks: tuple[str, str], table: Iterable[str]) -> str:
    """The page with the lines of a table between two marks."""
    begin, end = marks
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"the page lacks {begin!r} or {end!r}")
    return f"{before}{begin}\n\n" + "\n".join(table) + f"\n\n{end}{after}"


# --- docs/pasted-lines.md ------------------------------------------------------------------------

_HEAD = """\
# Pasted lines

You can paste a launcher's command after `ipexctl run`: `mpirun`, `torchrun`, `accelerate launch`,
`fabric run`, `ipexrun`, `deepspeed`, `srun`, `horovodrun` or `python`. ipexctl translates it, and
a note shows the result. It also removes `uv run`, `conda run`, `numactl` and others in front of
the launcher. `ipexctl migrate` applies the same rules to commands in files. This page is generated
from `launchers.toml` and `accelerate_keys.toml` in `ipexctl/user_code/launchers`.

- Options that are not listed here are refused by name. The note lists ignored options with the
  reason.
- Options of `ipexctl run` before the launcher override the launcher's options, which override its
  Accelerate config. The note lists overridden values.
- With nested launchers, the hosts (`-f`, `-H`) and the rank counts (`-n` and `-ppn` together) come
  from the outermost launcher that sets them, and each variable from the innermost.
- Two different values of one option of a launcher are refused, and so is a hostfile combined with
  a list of hosts.
- Commands with several programs (`mpirun a : b`) are refused.
- mpirun around torchrun, deepspeed or ipexrun is refused if both start several ranks per host.
- If a command sets no number of ranks, ipexctl uses the slots in the hostfile, or one rank per
  NUMA node.
- If a command names no hosts, they come from `-f`, `-H` or the settings, as for every run. File
  paths are relative to the current folder.
- `NAME=VALUE` in front of the launcher, or after `env`, means `--env NAME=VALUE`. In front of
  `ipexctl`, the shell sets it, and it reaches the ranks only with `--env NAME`.
- A file in the current folder with the launcher's name is treated as a script.
"""
_KEYS = """\
## Keys of an Accelerate config

ipexctl reads the config from `--accelerate FILE`, from `--config_file FILE` of a pasted
`accelerate launch`, or from Accelerate's default location: `default_config.yaml` in
`$HF_HOME/accelerate` (`~/.cache/huggingface/accelerate`). With `--cpu`, it ignores the default
location. It sets the same variables for these keys as `accelerate launch`, except KMP_AFFINITY
and KMP_BLOCKTIME, because ipexctl pins the ranks itself. Keys with a default value have no
effect. With `distributed_type: NO`, the config starts one rank whatever its numbers, as
`accelerate launch` does; `-n` starts more."""


def pasted_lines(launchers: Launchers, keys: Keys) -> str:
    """docs/pasted-lines.md."""
    parts = [_HEAD]
    for one in launchers.all:
        parts += _launcher(one)
    parts += [
        _KEYS,
        f"Source: {keys.source}.",
        "",
        "| key | default | in ipexctl |",
        "|---|---|---|",
    ]
    return "\n".join([*parts, *map(_key_row, keys.all)]) + "\n"


def _launcher(one: Launcher) -> Iterator[str]:
    calls = [*one.programs, *(f"python -m {module}" for module in one.modules)]
    sources = dict.fromkeys(flag.source for flag in one.flags)
    yield f"## {one.name}\n"
    invoked = f"Invoked as {', '.join(f'`{call}`' for call in calls)}."
    yield f"{invoked} Source: {'; '.join(sources)}." if sources else f"{invoked} It has no options."
    if one.sets:
        yield f"It sets {', '.join(f'`{item}`' for item in one.sets)}."
    if one.remark:
        yield f"The note also says: {one.remark}."
    if one.flags:
        yield "\n| option | value | in ipexctl |\n|---|---|---|"
        yield from map(_flag_row, one.flags)
    yield ""


def _flag_row(flag: Flag) -> str:
    names = ", ".join(f"`{name}`" for name in flag.names)
    value = f"`{flag.value}`".replace("|", "\\|") if flag.value else "any" if flag.values else ""
    return f"| {names} | {value} | {'; '.join(_here(flag))} |"


def _key_row(key: Flag) -> str:
    default = ", ".join(f"`{one}`" if one else "empty" for one in key.default)
    return f"| `{key.names[0]}` | {default} | {'; '.join(_here(key))} |"


def _here(entry: Flag) -> Iterator[str]:
    if entry.becomes == "variable":
        yield f"`--env {entry.as_ if '=' in entry.as_ else entry.as_ + '=VALUE'}`"
    elif entry.becomes == "option":
        yield f"`{entry.as_}`"
    else:
        yield f"{MEANINGS[entry.becomes]} {entry.as_}".rstrip()
    if entry.why:
        yield entry.why
    if entry.type:
        yield f"try: {entry.type}"
    if entry.until:
        yield f"until {entry.until}"


# --- docs/migrate.md -----------------------------------------------------------------------------


def with_rules(text: str, rules: Iterable[Rule]) -> str:
    """docs/migrate.md with the table of the rules as they are."""
    rows = (
        f"| {r.id} | {_finds(r)} | {r.since} | {_cell(r.use) or 'none: remove it'} | "
        f"{_cell(r.source)} |"
        for r in rules
    )
    head = "| rule | finds | since | replacement | source |"
    return _between(text, RULES, [head, "|" + "---|" * 5, *rows])


def _finds(rule: Rule) -> str:
    names = ", ".join(f"`{name}`" for name in rule.names)
    value = f" with `{_cell(rule.value)}`" if rule.value else ""
    return f"{rule.kind} {names}{value}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# --- docs/run.md ---------------------------------------------------------------------------------


def with_variables(text: str) -> str:
    """docs/run.md with the table of the variables of a rank as they are."""
    rows = [
        f"| `{entry.name}`{'*' * entry.fixed} | {entry.means} | {entry.readers} |"
        for entry in (*TABLE, ERROR_FILE)
    ]
    rows += [f"| `{name}` | {means} | {readers} |" for name, means, readers in HOST_WIDE]
    head = "| variable | value | who reads it |"
    return _between(text, VARIABLES, [head, "|---|---|---|", *rows])


# --- known failures, on the site -----------------------------------------------------------------

_FAILURES = """\
# Known failures

Generated from `ipexctl/explain/causes/causes.toml`.
`ipexctl explain LOGFILE` finds these in a log, `ipexctl explain NAME` explains one and says what to
type, and a failed run ends by naming the failure that its last lines show.
"""
_SEEN = """\
## Detected before a run

`ipexctl doctor` reports these under the check ids on the right; an id in lower case is the reason
why a host could not be checked. `tests/doctor/test_corpus.py` reproduces those that
can occur in a lab.

| name | what it is | what is printed | seen as |
|---|---|---|---|"""
_UNSEEN = """\
## Not detected before a run

| name | what it is | what is printed | why not |
|---|---|---|---|"""


def failures(causes: Iterable[Cause]) -> str:
    """A page of the site."""
    found = list(causes)
    seen = (_failure(c, ", ".join(c.checks)) for c in found if c.checks)
    unseen = (_failure(c, c.unseen) for c in found if not c.checks)
    return "\n".join([_FAILURES, _SEEN, *seen, "", _UNSEEN, *unseen]) + "\n"


def _failure(cause: Cause, last: str) -> str:
    example = _cell(cause.example).replace("`", "'")
    return f"| {cause.slug} | {cause.title} | `{example}` | {last} |"
