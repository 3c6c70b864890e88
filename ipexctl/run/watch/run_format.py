"""Handle runs that another version of ipexctl started: what can be read of them, and done."""

from __future__ import annotations

from ipexctl import __version__
from ipexctl.common.journal_records import RUN_FORMAT
from ipexctl.errors import InputError
from ipexctl.run.outcome.listed_runs import ListedRun

_HERE = f"this is ipexctl {__version__} (run format {RUN_FORMAT})"


def find_other_version(run: ListedRun) -> str:
    """Return which version started the run, if its format of runs differs; else ""."""
    if run.unreadable:
        return "another version of ipexctl, or its record is damaged"
    formats = {report.journal.format for report in run.seen if not report.row.unreadable}
    # on a full disk a journal is empty
    ours = {RUN_FORMAT, None} if RUN_FORMAT in formats else {RUN_FORMAT}
    if not (others := formats - ours):
        return ""
    other = next(iter(others))
    version = f"ipexctl {run.about.version}" if run.about.version else "another version of ipexctl"
    return f"{version} ({f'run format {other}' if other else 'no run format'})"


def describe_version(run: ListedRun) -> str:
    """Return a note about a run of another format, else ""."""
    if not (version := find_other_version(run)):
        return ""
    details = "whether it runs is all that ps shows" if run.unreadable else "details may be missing"
    return (
        f"{run.id} was started by {version}; {_HERE}: {details}; logs, metrics, fetch, stop, wait "
        "and rm do what they can, attach does not work"
    )


def require_same_format(run: ListedRun) -> None:
    """Refuse attach for another format: it has to understand all messages of the supervisors."""
    if version := find_other_version(run):
        raise InputError(
            f"cannot attach to {run.id}: it was started by {version}",
            why=f"{_HERE}, and attach needs the same run format",
            hint=f"ipexctl logs {run.name_or_id} -f   # or attach with the version that started it",
            slug="run-format-differs",
        )
