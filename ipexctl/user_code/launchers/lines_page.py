"""docs/pasted-lines.md, made from the tables of launchers and of Accelerate's keys."""

from __future__ import annotations

from collections.abc import Iterator

from ipexctl.user_code.launchers.accelerate_config import Key, Keys
from ipexctl.user_code.launchers.launcher_table import MEANINGS, Flag, Launcher, Launchers

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


def page(launchers: Launchers, keys: Keys) -> str:
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
        yield f"try: {entry.type}"
    if entry.until:
        yield f"until {entry.until}"
