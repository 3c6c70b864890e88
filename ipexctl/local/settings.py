"""Load settings from the environment, the project's ipexctl.toml and the user's config.toml.

A flag on the command line takes precedence over all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ipexctl.base.located_errors import Bad
from ipexctl.errors import InputError, reason_of
from ipexctl.inventory.nodeset import NODES, hosts_of_job
from ipexctl.local.environment import environment
from ipexctl.local.nearest_file import Note, ignore_note, project_file, short_path
from ipexctl.local.settings_file import PATHS, Setting, check_setting, parse_settings
from ipexctl.local.user_dirs import config_dir

# the first one that is set counts
VARIABLES = {
    "hostfile": ("IPEXCTL_HOSTFILE", "I_MPI_HYDRA_HOST_FILE", "WCOLL", "PBS_NODEFILE"),
    "ssh_config": ("IPEXCTL_SSH_CONFIG",),
    "root": ("IPEXCTL_ROOT",),
    "forks": ("IPEXCTL_FORKS",),
}
OWN = {  # settings of the user alone, and why
    "prune.": "it decides which results of other projects are removed",
    "run.notify": "it is a command, and others may have written the project",
}
USER_FILE = "config.toml"
_MOST_BYTES = 1 << 20
_NUMBER = re.compile(r"[0-9]{1,9}")


def load_settings(
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    note: Note = ignore_note,
) -> dict[str, Setting]:
    """Return every setting that has a value. Raises InputError with file and line."""
    environ = environment() if environ is None else environ
    loaded = _read_settings(user_file(environ))
    of_folder = of_project(folder or Path.cwd(), note)
    for setting in of_folder.values():
        whys = [why for key, why in OWN.items() if setting.key.startswith(key)]
        if whys:
            raise InputError(
                f"{setting.origin}: {setting.key} is not allowed in a project's file",
                why=whys[0],
                hint=f"move it to {user_file(environ)}",
                slug="setting-not-allowed",
            )
    around = _from_environment(environ)
    if "hosts" in around:  # they precede each hostfile that a file names
        for settings in (loaded, of_folder):
            settings.pop("hostfile", None)
    return loaded | of_folder | around


def of_project(folder: Path, note: Note = ignore_note) -> dict[str, Setting]:
    """Return the settings of the project's file, which is in the folder or above it."""
    project = project_file(folder, note)
    if not project:
        return {}
    return {
        k: replace(s, project=str(project.resolve())) for k, s in _read_settings(project).items()
    }


def configured_env() -> dict[str, str]:
    """Return the variables for every rank."""
    setting = load_settings().get("run.env")
    return dict(setting.value) if setting else {}


def settings_document(settings: Mapping[str, Setting]) -> dict[str, Any]:
    return {
        "command": "config",
        "settings": {s.key: {"value": s.value, "origin": s.origin} for s in settings.values()},
    }


def user_file(environ: Mapping[str, str]) -> Path:
    return config_dir(environ) / USER_FILE


def option_defaults(settings: Mapping[str, Setting], command: str) -> dict[str, Any]:
    """Return option -> value for those options of a command that have a setting of their own.

    Not the hostfile: hosts on the command line precede it. Not run.env: options add to it.
    """
    shared = ("ssh_config", "root", "forks")
    common = {key: settings[key].value for key in shared if key in settings}
    run = {
        key.removeprefix("run."): setting.value
        for key, setting in settings.items()
        if key.startswith("run.") and not isinstance(setting.value, dict)
    }
    return {**common, **run} if command in ("run", "tune") else common


def _read_settings(path: Path) -> dict[str, Setting]:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as e:
        raise InputError(
            f"cannot read {path}", why=reason_of(e), slug="settings-unreadable"
        ) from None
    settings = parse_settings(text, short_path(path))
    for key in PATHS:
        if key in settings:
            settings[key] = _from_folder(path.parent, settings[key])
    return settings


def _from_folder(folder: Path, setting: Setting) -> Setting:
    """Make a path absolute; those in a settings file are relative to its folder."""
    try:
        value = str(folder / Path(setting.value).expanduser())
    except RuntimeError:
        user = setting.value.partition("/")[0]
        raise InputError(
            f"{setting.origin}: {setting.key}: there is no user for {user} here",
            hint=f"write ./{setting.value} for a file of that name",
            slug="user-unknown",
        ) from None
    return replace(setting, value=value)


def is_from_file(setting: Setting) -> bool:
    """Decide whether later commands here get the setting too: a variable ends with its shell."""
    return setting.origin not in {NODES, *(name for names in VARIABLES.values() for name in names)}


def _from_environment(environ: Mapping[str, str]) -> dict[str, Setting]:
    settings = {}
    for key, names in VARIABLES.items():
        name = next((name for name in names if environ.get(name)), None)
        if name:
            text = environ[name]
            value = int(text) if key == "forks" and _NUMBER.fullmatch(text) else text
            settings[key] = Setting(key, check_setting(key, value, name), name)
    if "hostfile" not in settings and environ.get(NODES):
        settings["hosts"] = Setting("hosts", _hosts_of_job(environ), NODES)
    return settings


def _hosts_of_job(environ: Mapping[str, str]) -> str:
    try:
        return hosts_of_job(environ)
    except Bad as e:
        raise InputError(
            f"{NODES}: {e}", hint=e.hint or "-H host1,host2", slug="slurm-hosts-invalid"
        ) from None
