"""docs/pasted-lines.md, made from the tables of launchers and of Accelerate's keys."""

from __future__ import annotations

from collections.abc import Iterator

from ipexctl.core.pasted.accelerate_config import Key, Keys
from ipexctl.core.pasted.launcher_table import MEANINGS, Flag, Launcher, Launchers

_HEAD = """\
# Pasted lines

`ipexctl run mpirun ...`, `torchrun`, `accelerate launch`, `ipexrun`, `deepspeed`, `srun`,
`horovodrun` and `python`: the launcher is taken off, and a note says what the line became. So are
`uv run`, `conda run`, `numactl` and others in front of them. This page is made from the tables that
decide it, `launchers.toml` and `accelerate_keys.toml` in `ipexctl/core/pasted`; `ipexctl migrate`
reads lines in files by them, too.

- An option that is not listed is refused by name. The note names what is ignored, with the
  reason.
- Options of `ipexctl run` before the launcher win over the line, and the line wins over its
  Accelerate config. The counts of ranks (`-n`, `-ppn`) are taken together, of nested launchers
  from the outer one, and so are the hosts (`-f`, `-H`). Variables are taken one by one, from the
  inner launcher. The note says which value is dropped.
- Two different values of one option of one launcher are refused, and so is a hostfile beside a
  list of hosts.
- Lines of several programs (`mpirun a : b`) are refused.
- mpirun around torchrun, deepspeed or ipexrun is refused where both start several ranks per
  host.
- A line that says no number of ranks gets ipexctl's own: the slots of the hostfile, or one rank
  per NUMA node.
- Hosts that the line does not name come from `-f`, `-H` or the settings, as for every run.
  Files are found as seen from the current folder.
- `NAME=VALUE` in front of the launcher, or after `env`, is `--env NAME=VALUE`. In front of
  `ipexctl` it is the shell's, and reaches the ranks only with `--env NAME`.
- A file of the launcher's name in the current folder is a script.
"""
_KEYS = """\
## Keys of an Accelerate config

Read from `--accelerate FILE`, from `--config_file FILE` of a pasted `accelerate launch`, or
where that looks itself: `default_config.yaml` in `$HF_HOME/accelerate`
(`~/.cache/huggingface/accelerate`); with `--cpu` only from the first two. The variables are
those that `accelerate launch` sets for these keys. Its KMP_AFFINITY and KMP_BLOCKTIME are not
set, as ipexctl pins the ranks itself."""


def page(launchers: Launchers, keys: Keys) -> str:
    parts = [_HEAD]
    for one in launchers.all:
        parts += _launcher(one)
    parts += [
        _KEYS,
        f"Read in: {keys.source}.",
        "",
        "| key | says nothing | here |",
        "|---|---|---|",
    ]
    return "\n".join([*parts, *map(_key_row, keys.all)]) + "\n"


def _launcher(one: Launcher) -> Iterator[str]:
    calls = [*one.programs, *(f"python -m {module}" for module in one.modules)]
    sources = dict.fromkeys(flag.source for flag in one.flags)
    yield f"## {one.name}\n"
    yield f"Called as {', '.join(f'`{call}`' for call in calls)}. Read in: {'; '.join(sources)}."
    if one.remark:
        yield f"The note says, too: {one.remark}."
    yield "\n| option | value | here |\n|---|---|---|"
    yield from map(_flag_row, one.flags)
    yield ""


def _flag_row(flag: Flag) -> str:
    names = ", ".join(f"`{name}`" for name in flag.names)
    value = f"`{flag.value}`".replace("|", "\\|") if flag.value else "any" if flag.values else ""
    return f"| {names} | {value} | {'; '.join(_here(flag))} |"


def _key_row(key: Key) -> str:
    default = ", ".join(f"`{one}`" if one else "empty" for one in key.default)
    return f"| `{key.key}` | {default} | {'; '.join(_here(key))} |"


def _here(entry: Flag | Key) -> Iterator[str]:
    if entry.becomes == "variable":
        yield f"`--env {entry.as_ if '=' in entry.as_ else entry.as_ + '=VALUE'}`"
    elif entry.becomes == "option":
        yield f"`{entry.as_}`"
    else:
        yield f"{MEANINGS[entry.becomes]} {entry.as_}".rstrip()
    if entry.why:
        yield entry.why
    if entry.type:
        yield f"in its place: {entry.type}"
    if entry.until:
        yield f"until {entry.until}"
