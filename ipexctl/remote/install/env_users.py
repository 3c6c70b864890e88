"""Record which projects requested an environment and last ran in it: ROOT/projects/KEY/ID.

The file's content is written when a project asks for the environment; its time of change is the
last run. It lies outside the environment, so that a rebuild does not lose it.
"""

import os
import re
import shutil
import time

from ipexctl.common.files import read_json
from ipexctl.common.tolerant_reads import info_of, names_in
from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure
from ipexctl.remote.install import env_marks

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.common.env_answers import EnvUser
    from ipexctl.remote.main import Call

    Project = dict[str, str]  # id, name, by

ID = re.compile(r"[0-9a-f]{12}\Z")
TEXT = ("name", "by")
MOST_PROJECTS = 64  # projects in an answer


def op_ask(call: "Call", root: str, key: str, project: "Project") -> None:
    """Record that the project requests this environment."""
    root = root_folder.prepare_root(root)
    env_marks.env_folder(root, key)
    note_project(root, key, project)


def note_project(root: str, key: str, project: "Project | None") -> None:
    """Record that a project requests the environment; without a project, do nothing."""
    if not project:
        return
    path = path_of(root, key, project["id"])
    if os.path.exists(path):
        return
    root_folder.make_subfolder(root, "projects", key)
    mark = {name: str(project.get(name, ""))[:200] for name in TEXT}
    try:
        env_marks.write_mark(path, dict(mark, asked=int(time.time())))
    except OSError as e:
        raise root_folder.write_failure(e, root, 0) from None


def note_project_run(root: str, key: str, project: "Project | None") -> None:
    """Record that a run starts. A failure to record it must not stop the run."""
    try:
        note_project(root, key, project)
        if project:
            os.utime(path_of(root, key, project["id"]))
    except (OSError, Failure):
        pass


def forget_projects(root: str, key: str) -> None:
    shutil.rmtree(folder_of(root, key), ignore_errors=True)


def list_projects(root: str, key: str) -> "list[tuple[Project, str, str]]":
    """Return (project, asked, used); the most recent user comes first."""
    rows = []
    for name in sorted(filter(ID.match, names_in(folder_of(root, key)))):
        path = path_of(root, key, name)
        mark = read_json(path)
        try:
            used = os.stat(path).st_mtime
            asked = float((mark or {}).get("asked", used))
            project = dict({word: str((mark or {}).get(word, "")) for word in TEXT}, id=name)
            rows.append((used, (project, format_utc_date(asked), format_utc_date(used))))
        except (OSError, TypeError, ValueError, OverflowError):
            continue
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])][:MOST_PROJECTS]


def list_users(root: str, key: str) -> "list[EnvUser]":
    # imported late: the probe reads this module, and no messages
    from ipexctl.common.env_answers import EnvUser, ProjectEnv

    rows = list_projects(root, key)
    return [EnvUser(ProjectEnv(**project), asked, used) for project, asked, used in rows]


def built_on(env: str) -> str:
    """Return the time of its mark, "" if it has none."""
    info = info_of(os.path.join(env, env_marks.OK))
    return format_utc_date(info.st_mtime) if info else ""


def format_utc_date(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def folder_of(root: str, key: str) -> str:
    return os.path.join(root, "projects", key)


def path_of(root: str, key: str, name: str) -> str:
    return os.path.join(folder_of(root, key), name)
