"""What the command that started a run recorded about it on this host."""

import os

from ipexctl.common.attempt_record import RunQueued
from ipexctl.common.journal_records import RunBegan
from ipexctl.common.run_about import RunAbout
from ipexctl.remote.run_files import attempt_lines, journal, needed_envs


def read_about(folder: str) -> RunAbout:
    """Return what is recorded about a run; empty if it is unknown. One that is queued has no
    journal yet."""
    hosts = journal.list_journal_hosts(folder)[:1]
    for host in hosts:
        for written in journal.read_journal(folder, host)[: journal.FIRST]:
            if isinstance(written.record, RunBegan):
                return written.record.about
    for host in [] if hosts else journal.list_kept_hosts(folder)[:1]:
        first = next(attempt_lines.read_lines(folder, host), None)
        if isinstance(first, RunQueued):
            return first.about
    marks = [] if hosts else needed_envs.read_marks(folder)  # a spare has nothing else
    return next((mark.about for mark in marks), RunAbout())


def describe_run(root: str, run: str) -> str:
    """Return `run base (20261126-120000-abcdef) of ann@desk`, as far as that is known."""
    folder = os.path.join(root, "runs", run)
    name = "".join(read_about(folder).name[:64].split())
    owner = read_owner(folder, "")
    text = "run %s (%s)" % (name, run) if name else "run %s" % run
    return text + " of %s" % owner * bool(owner)


def read_owner(folder: str, user: str) -> str:
    """Return who started the run, as user@machine: several people may share the account `user`,
    which is returned where that is not known."""
    return "".join(read_about(folder).by[:200].split()) or user
