"""The environment of a command, and the projects that asked for one, as hosts report it."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import Any

from ipexctl.base.values import by, matching_text
from ipexctl.common.env_answers import EnvUser, ProjectEnv
from ipexctl.quick_dataclass import dataclass

KEY_FORM = re.compile(r"[0-9a-f]{16}")
KEY = by(matching_text(KEY_FORM), needed=True)


def describe_user(user: EnvUser) -> str:
    return f"{user.project.name} ({user.project.by}), last used {user.used[:10]}"


@dataclass(frozen=True)
class EnvChoice:
    """The choice of a folder. `key` "": there is no lock, so the hosts' current one is used.

    `instead`: the command that chose another environment than the lock's `locked`.
    """

    project: ProjectEnv
    key: str = ""
    lock: str = ""  # its path
    instead: str = ""
    locked: str = ""
    without: str = ""  # why there is no lock
    shown: str = "ipexctl.lock"  # its path relative to the working folder
    newer: tuple[str, ...] = ()  # its requirements files, if one is newer than the lock

    def reason_for(self, key: str) -> str:
        """Return why this folder needs the environment, "" if it does not."""
        if self.instead and key == self.key:
            return f"used here by `{self.instead}`"
        is_named = key and key in (self.key, self.locked)
        return f"{self.shown} names it" if is_named else ""


def asked_env(choice: EnvChoice | None) -> dict[str, Any]:
    """Return the arguments of `run.run_environment.find` for a host."""
    if not choice or not choice.key:
        return {}
    return {
        "environment": choice.key,
        "project": choice.project.document(),
        "lock": choice.shown,
    }


@dataclass(frozen=True)
class EnvUsed:
    """The environment of a run: `choice`, and a host's report about it. `users` may be empty: it
    was installed before environments recorded their projects."""

    key: str = field(metadata=KEY)
    built: str = ""
    users: tuple[EnvUser, ...] = ()
    choice: EnvChoice | None = field(default=None, metadata=by(lambda value: None))  # is not sent

    def with_choice(self, choice: EnvChoice) -> EnvUsed:
        return replace(self, choice=choice)

    @property
    def user(self) -> EnvUser | None:
        """The project that runs, else the one that used it last."""
        project = self.choice.project.id if self.choice else ""
        own_user = next((user for user in self.users if user.project.id == project), None)
        return own_user if self.choice and self.choice.key else next(iter(self.users), own_user)

    @property
    def project(self) -> str:
        return self.user.project.name if self.user else "unknown"

    @property
    def date(self) -> str:
        return self.user.asked if self.user else self.built

    def __str__(self) -> str:
        text = f"environment {self.key} (project {self.project}, {self.date[:10] or 'no date'})"
        if self.choice is None:
            return text
        if not self.choice.key:
            return f"{text}, the hosts' current one: {self.choice.without}"
        if self.choice.instead:
            instead, locked = self.choice.instead, self.choice.locked
            return f"{text}, by `{instead}`; {self.choice.shown} names {locked}"
        return f"{text}, from {self.choice.shown}"

    def document(self) -> dict[str, Any]:
        lock = self.choice.lock if self.choice else ""
        return {
            "key": self.key,
            "project": self.project,
            "date": self.date or None,
            "source": self.source,
            "lock": lock or None,
        }

    @property
    def source(self) -> str:
        if not self.choice or not self.choice.key:
            return "current"
        return "chosen" if self.choice.instead else "lock"
