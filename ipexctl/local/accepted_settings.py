"""A project's settings that decide who receives code and what ssh runs: used only once accepted.

The user accepts the values and the content of the files that they name. When either changes, the
user is asked again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping
from pathlib import Path

from ipexctl.errors import InputError, reason_of
from ipexctl.local.bounded_read import read_file
from ipexctl.local.memory import Memory
from ipexctl.local.settings_file import PATHS, Setting
from ipexctl.quick_dataclass import dataclass

KEYS = ("hostfile", "ssh_config", "root")
_MOST_BYTES = 16 << 20  # bytes of a file
_MEMORY = Memory("accepted")  # project's file -> digest


@dataclass(frozen=True)
class SettingsProposal:
    """The KEYS that the ipexctl.toml of a project sets."""

    project: str  # the path of that file
    settings: tuple[Setting, ...]
    digest: str
    unreadable: Setting | None = None  # a setting whose file cannot be read completely
    why: str = ""


def find_proposal(settings: Mapping[str, Setting]) -> SettingsProposal | None:
    """Return a proposal; None if no setting of KEYS comes from a project's file.

    One that has an `unreadable` setting cannot be accepted.
    """
    proposed = tuple(s for key in KEYS if (s := settings.get(key)) and s.project)
    if not proposed:
        return None
    rows: list[list[str]] = []
    for setting in proposed:
        try:
            content = _content_hash(setting.value) if setting.key in PATHS else ""
        except OSError as e:
            return SettingsProposal(proposed[0].project, proposed, "", setting, reason_of(e))
        rows.append([setting.key, setting.value, content])
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    return SettingsProposal(proposed[0].project, proposed, digest)


def is_accepted(proposed: SettingsProposal) -> bool:
    return not proposed.unreadable and _MEMORY.load().get(proposed.project) == proposed.digest


def accept_proposal(proposed: SettingsProposal) -> None:
    """Accept the settings. Raises InputError if one of their files is unreadable or large."""
    if proposed.unreadable:
        raise refusal_error(proposed)
    _MEMORY.save({proposed.project: proposed.digest})


def refusal_error(proposed: SettingsProposal, wanted: Container[str] = KEYS) -> InputError:
    """Return the error for settings that were not accepted. `wanted`: keys that are needed."""
    if unreadable := proposed.unreadable:
        option = "-f" if unreadable.key == "hostfile" else "-F"
        lab = Path(unreadable.value).parent
        if lab.parent.name == "labs":
            return InputError(
                f"the lab {lab.name!r} is not running",
                why=f"{unreadable.origin} names its {unreadable.key}",
                hint=f"ipexctl lab up --name {lab.name}\n"
                "cd ~   # in other folders, ipexctl uses this machine",
                slug="lab-not-running",
            )
        return InputError(
            f"cannot read the {unreadable.key} {unreadable.value}: {proposed.why}",
            why=f"{unreadable.origin} names it",
            hint=f"correct that line, or put the file back; or name another one: {option} FILE",
            slug="settings-file-unreadable",
        )
    settings = [setting for setting in proposed.settings if setting.key in wanted]
    *others, last = (setting.key for setting in settings)
    keys = f"{', '.join(others)} and {last}" if others else last
    are, they = ("is", "it decides") if not others else ("are", "they decide")
    return InputError(
        f"{settings[0].origin.rpartition(':')[0]}: {keys} {are} not accepted yet, "
        "or changed since then",
        why=f"{they} which hosts receive your code, and which programs ssh runs here",
        hint="ipexctl config --accept   # after you have reviewed them; or use -f, -F and --root",
        slug="settings-not-accepted",
    )


def _content_hash(path: str) -> str:
    return hashlib.sha256(read_file(Path(path), _MOST_BYTES)).hexdigest()
